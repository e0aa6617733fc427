// SPDX-License-Identifier: GPL-2.0-only
//! What the screen shows of known snapshots, to the character, and how it answers keys.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use steelyard_monitor::{Action, Interval, Looks, Screen, Settings};
use steelyard_recording::{
    Domain, Figures, Host, OtherRun, PolicyState, Snapshot, State, Structure, ThreadEvents, Vcpu,
    Waits,
};
use steelyard_simulator::measure::{Ran, Segment, WorstWait};

const MS: u64 = 1_000_000;

/// Two domains after so many seconds: "web" with two vCPUs and "batch" with one. In each second
/// "batch" runs on pCPU 0 while the first vCPU of "web" waits, then that runs there; the second runs on
/// pCPU 1, where a thread of the host runs after it.
fn snapshot(second: u64) -> Snapshot {
    let vcpu = |id| Vcpu { id, name: format!("vCPU {id}") };
    let domain = |id, name: &str, weight, vcpus| Domain {
        id,
        name: name.to_owned(),
        weight,
        ungrouped: false,
        groups_around: None,
        cap_percent: 0,
        vcpus: (0..vcpus).map(vcpu).collect(),
    };
    let structure = Arc::new(Structure {
        host: Host {
            name: "node".to_owned(),
            source: "a test".to_owned(),
            pcpus: 2,
            began_unix_ns: None,
            unseen: vec!["The future.".to_owned()],
        },
        domains: vec![domain(1, "web", 512, 2), domain(2, "batch", 256, 1)],
    });
    let figures = |gotten_ms: u64, waited_ms: u64, state, pcpu, waits: &[(u64, u64)]| Figures {
        state: Some(state),
        pcpu: Some(pcpu),
        gotten_ns: gotten_ms * MS * second,
        waited_ns: Some(waited_ms * MS * second),
        switches: Some(gotten_ms * second),
        migrations: Some(3),
        preemptions: Some(0),
        waits: Some(Waits {
            histogram: waits.iter().map(|&(bound, count)| (bound, count * second)).collect(),
            worst: waits.last().filter(|_| second > 0).map(|&(length_ns, _)| WorstWait {
                vcpu: 0,
                start_ns: 250 * MS,
                length_ns,
                ran: vec![Ran { domain: "batch".to_owned(), vcpu: 0, ran_ns: length_ns }],
            }),
        }),
        policy: (pcpu == 0).then(|| PolicyState {
            weight: 400,
            slice_ns: Some(5 * MS),
            credit: -12,
            class: Some("over".to_owned()),
            boosted: waited_ms == 250,
        }),
    };
    let from_ns = second.saturating_sub(1) * 1000 * MS;
    let segment = |domain, vcpu, pcpu, start_ms: u64, end_ms: u64| Segment {
        domain,
        vcpu,
        pcpu,
        start_ns: from_ns + start_ms * MS,
        end_ns: from_ns + end_ms * MS,
    };
    let segments = vec![
        segment(0, 1, Some(1), 0, 100),
        segment(1, 0, Some(0), 0, 250),
        segment(0, 0, None, 0, 250),
        segment(0, 0, Some(0), 250, 750),
        segment(1, 0, None, 250, 350),
    ];
    let other = OtherRun {
        name: "kworker".into(),
        thread: 9,
        priority: Some(120),
        waited: false,
        pcpu: 1,
        start_ns: from_ns + 100 * MS,
        end_ns: from_ns + 500 * MS,
    };
    Snapshot {
        structure,
        time_ns: 1000 * MS * second,
        idle_ns: vec![0, 500 * MS * second],
        vcpus: vec![
            figures(500, 250, State::Waiting, 0, &[(MS, 90), (30 * MS, 10)]),
            figures(100, 0, State::Blocked, 1, &[]),
            // It runs still, for 250 ms now.
            figures(500, 100, State::Running, 0, &[(2 * MS, 50)]),
        ],
        segments: if second > 0 { segments } else { vec![] },
        others: if second > 0 { vec![other] } else { vec![] },
        threads: ThreadEvents::default(),
        lost: 0,
    }
}

fn interval_until(second: u64) -> Interval {
    Interval::between(&snapshot(second - 1), &snapshot(second))
}

fn interval() -> Interval {
    interval_until(1)
}

fn screen() -> Screen {
    let mut screen = Screen::new(Looks { blocks: false, color: false }, Settings::default(), false);
    screen.show(interval());
    screen
}

fn drawn(screen: &mut Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content.chunks(usize::from(width));
    let rows = rows.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>());
    rows.map(|row| row.trim_end().to_owned() + "\n").collect()
}

fn press(screen: &mut Screen, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            'V' => KeyCode::Down,
            key => KeyCode::Char(key),
        };
        screen.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
}

#[test]
fn the_screen_is_this() {
    let mut screen = screen();
    screen.show(interval_until(2));
    press(&mut screen, "\n");
    is_drawn(&mut screen, 80, 12, "domains");
    is_drawn(&mut screen, 200, 14, "domains-wide");
    press(&mut screen, "Vv");
    is_drawn(&mut screen, 80, 18, "vcpu");
    is_drawn(&mut screen, 200, 18, "vcpu-wide");
    press(&mut screen, "p");
    is_drawn(&mut screen, 80, 10, "pcpus");
    is_drawn(&mut screen, 200, 10, "pcpus-wide");
    press(&mut screen, "?");
    is_drawn(&mut screen, 80, 24, "help");
}

/// As one of `tests/data`.
fn is_drawn(screen: &mut Screen, width: u16, height: u16, name: &str) {
    let path = format!("{}/tests/data/{name}.screen", env!("CARGO_MANIFEST_DIR"));
    let drawn = drawn(screen, width, height);
    if std::env::var_os("WRITE_SCREENS").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(drawn == expected, "{name} is now\n{drawn}");
}

#[test]
fn keys_choose_what_is_seen() {
    let mut screen = screen();
    let all = drawn(&mut screen, 80, 24);
    let at = |text: &str, what: &str| text.find(what).unwrap_or(usize::MAX);
    assert!(at(&all, "+ web") < at(&all, "+ batch"));
    // The first column to sort by is the average, where "batch" has more.
    press(&mut screen, "s");
    let sorted = drawn(&mut screen, 80, 24);
    assert!(at(&sorted, "+ batch") < at(&sorted, "+ web"), "{sorted}");
    press(&mut screen, "r");
    let reversed = drawn(&mut screen, 80, 24);
    assert!(at(&reversed, "+ web") < at(&reversed, "+ batch"), "{reversed}");
    press(&mut screen, "/BAT\n");
    let filtered = drawn(&mut screen, 80, 24);
    assert!(filtered.contains("+ batch") && !filtered.contains("+ web"), "{filtered}");
    press(&mut screen, "\x1b");
    assert!(drawn(&mut screen, 80, 24).contains("+ web"));
    press(&mut screen, "?");
    let help = drawn(&mut screen, 80, 24);
    assert!(help.contains("CPU%") && help.contains("lines more"), "{help}");
    // It goes no further than to its end.
    for _ in 0..99 {
        press(&mut screen, "V");
    }
    let end = drawn(&mut screen, 80, 24);
    assert!(end.contains("Not seen: The future.") && end.contains("MEANWHILE"), "{end}");
    let key = |screen: &mut Screen, code| screen.key(KeyEvent::new(code, KeyModifiers::NONE));
    assert_eq!(key(&mut screen, KeyCode::Char('q')), Action::Quit);
    assert_eq!(key(&mut screen, KeyCode::Char(' ')), Action::Pause);
    assert_eq!(key(&mut screen, KeyCode::Char(',')), Action::Step(-1));
}

#[test]
fn it_can_be_drawn_at_any_size_in_any_view() {
    for looks in [Looks { blocks: false, color: false }, Looks { blocks: true, color: true }] {
        for keys in
            ["", "a", "aV", "v", "p", "?", "/x", "/nobody\n", "c", "cVVV ", "o", "\n\nVVVVV"]
        {
            let mut screen = Screen::new(looks, Settings::default(), false);
            press(&mut screen, keys);
            for (width, height) in [(1, 1), (20, 5), (80, 24), (200, 60), (5, 60), (300, 2)] {
                drawn(&mut screen, width, height);
            }
            screen.show(interval());
            press(&mut screen, keys);
            for (width, height) in [(1, 1), (20, 5), (80, 24), (200, 60), (5, 60), (300, 2)] {
                drawn(&mut screen, width, height);
            }
        }
    }
}

#[test]
fn who_is_chosen_is_on_the_screen() {
    let mut screen = screen();
    press(&mut screen, "aVVVV");
    // One row of the table is left beside its titles.
    let small = drawn(&mut screen, 80, 5);
    assert!(small.contains("vCPU 0") && small.contains("10.0 2.00ms"), "{small}");
}

#[test]
fn the_mouse_chooses_and_unfolds() {
    let mut screen = screen();
    drawn(&mut screen, 80, 24);
    let click = |screen: &mut Screen, row| {
        let kind = MouseEventKind::Down(MouseButton::Left);
        screen.mouse(MouseEvent { kind, column: 5, row, modifiers: KeyModifiers::NONE });
        drawn(screen, 80, 24)
    };
    // "web" is chosen from the beginning.
    let folded = click(&mut screen, 4);
    assert!(folded.contains("+ batch"), "{folded}");
    let unfolded = click(&mut screen, 4);
    assert!(unfolded.contains("+ web") && unfolded.contains("- batch"), "{unfolded}");
    // A title sorts, a second time the other way round; over the names, as they come.
    let kind = MouseEventKind::Down(MouseButton::Left);
    let at = |column| MouseEvent { kind, column, row: 2, modifiers: KeyModifiers::NONE };
    let wait = folded.lines().nth(2).unwrap().find("WAIT%").unwrap() as u16;
    for (column, sorted) in [(wait, "by WAIT%"), (wait + 4, "by WAIT%, reversed"), (3, "###\n")] {
        screen.mouse(at(column));
        assert!(drawn(&mut screen, 80, 24).contains(sorted));
    }
    // There is nothing.
    assert_eq!(click(&mut screen, 0), unfolded);
    assert_eq!(click(&mut screen, 20), unfolded);
}

#[test]
fn who_comes_is_marked_and_who_went_fades() {
    let without = |second, gone: usize| {
        let mut snapshot = snapshot(second);
        let mut structure = (*snapshot.structure).clone();
        structure.domains.remove(gone);
        snapshot.structure = Arc::new(structure);
        match gone {
            0 => drop(snapshot.vcpus.drain(..2)),
            _ => drop(snapshot.vcpus.pop()),
        }
        snapshot.segments.clear();
        snapshot
    };
    let mut screen = Screen::new(Looks { blocks: false, color: false }, Settings::default(), false);
    screen.show(Interval::between(&without(0, 1), &without(1, 1)));
    assert!(!drawn(&mut screen, 80, 24).contains("+ batch"));
    screen.show(Interval::between(&without(1, 1), &snapshot(2)));
    let came = drawn(&mut screen, 80, 24);
    assert!(came.contains("+ web") && came.contains("+*batch"), "{came}");
    screen.show(Interval::between(&snapshot(2), &without(3, 0)));
    let mut shown = 0;
    for second in 4..20 {
        let screen_now = drawn(&mut screen, 80, 24);
        shown += u32::from(screen_now.contains("+ web        ended"));
        screen.show(Interval::between(&without(second - 1, 0), &without(second, 0)));
    }
    assert!(shown > 1 && shown < 10, "{shown}");
    let long_after = drawn(&mut screen, 80, 24);
    assert!(long_after.contains("+ batch") && !long_after.contains("+ web"), "{long_after}");
}

#[test]
fn shares_are_told_in_other_units() {
    let mut screen = screen();
    for (titles, web) in
        [("CPU%", "60.0   76.7"), ("CPU%H", "30.0   38.3"), ("CPUms", "600.0  766.7")]
    {
        let drawn = drawn(&mut screen, 80, 24);
        assert!(drawn.contains(titles) && drawn.contains(web), "{drawn}");
        press(&mut screen, "u");
    }
    assert!(drawn(&mut screen, 80, 24).contains("CPU% "));
}

#[test]
fn history_goes_back_with_time() {
    let mut screen = screen();
    press(&mut screen, "v");
    let waits =
        |screen: &mut Screen| drawn(screen, 80, 40).matches("meanwhile batch/0 250ms").count();
    for (second, seen) in [(2, 2), (3, 3), (2, 2), (1, 1), (2, 2), (9, 1)] {
        screen.show(interval_until(second));
        assert_eq!(waits(&mut screen), seen, "{second}");
    }
}

#[test]
fn wider_screens_show_more_and_batches_show_the_same() {
    let wide = drawn(&mut screen(), 200, 10);
    for title in ["AVG%", "P99", "WORST", "BLK%", "MIG/s", "CAP%"] {
        assert!(wide.contains(title), "{title}: {wide}");
    }
    let table = interval().to_table(200, true);
    assert!(table.contains("MIG/s") && table.contains("30.0ms"), "{table}");
    for width in [10, 40, 80, 100, 200] {
        let table = interval().to_table(width, true);
        let long = |line: &&str| line.chars().count() > width;
        assert_eq!(table.lines().skip(1).find(long), None, "{width}: {table}");
    }
}

#[test]
fn names_do_not_speak_to_the_terminal() {
    let mut interval = interval();
    interval.host.name = "a\x1b[2J".to_owned();
    interval.domains[0].name = "b\x07\n".to_owned();
    interval.domains[0].vcpus[0].name = "c\x1b]0;d\x07".to_owned();
    let mut screen = Screen::new(Looks { blocks: false, color: false }, Settings::default(), false);
    screen.show(interval.clone());
    press(&mut screen, "a");
    for text in [interval.to_table(80, true), interval.to_bars(80), drawn(&mut screen, 80, 24)] {
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}

#[test]
fn bars_are_those_that_were_published() {
    let bars = interval().to_bars(60);
    let expected = [
        "web      vCPU 0   50.0 % |################                |",
        "         vCPU 1   10.0 % |###                             |",
        "         average  30.0 % |##########                      |",
        "batch    vCPU 0   50.0 % |################                |",
        "         average  50.0 % |################                |",
    ];
    assert_eq!(bars.lines().skip(1).collect::<Vec<_>>(), expected);
}

#[test]
fn columns_are_chosen_and_titles_are_whole() {
    let mut screen = screen();
    let titles = |screen: &mut Screen| drawn(screen, 80, 24).lines().nth(2).unwrap().to_owned();
    let before = titles(&mut screen);
    assert!(before.contains("CAP%") && before.contains("WORST"), "{before}");
    press(&mut screen, "a");
    assert_eq!(titles(&mut screen), before, "unfolding changes no column");
    // The first is turned off, and the choice is to be kept.
    press(&mut screen, "ac ");
    assert!(drawn(&mut screen, 80, 24).contains("[ ] AVG%"));
    let back = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(screen.key(back), Action::Keep);
    let after = titles(&mut screen);
    assert!(!after.contains("AVG%") && after.contains("CPU%"), "{after}");
    press(&mut screen, "cd\x1b");
    assert_eq!(titles(&mut screen), before);
    assert_eq!(screen.key(KeyEvent::new(KeyCode::Char('w'), KeyModifiers::NONE)), Action::Write);
    let csv = screen.to_csv();
    let mut lines = csv.lines();
    assert!(lines.next().unwrap().starts_with("time,domain,vcpu,AVG%,CPU%"), "{csv}");
    assert!(lines.next().unwrap().starts_with("1.000,web,,30.0,60.0"), "{csv}");
}

#[test]
fn who_is_past_a_threshold_stands_out() {
    let settings = Settings::parse("[alert]\nwait_p99_ms = 25.0\nwaited_percent = 90.0\n").unwrap();
    let mut screen = Screen::new(Looks { blocks: false, color: false }, settings, false);
    screen.show(interval());
    let text = drawn(&mut screen, 80, 24);
    // 10 of 100 waits of web are of 30 ms, all of batch of 2.
    assert!(text.contains("+!web") && text.contains("+ batch"), "{text}");
    assert!(text.contains("1 ALERT") && text.contains("ALERT: p99 of waits 30.0 ms"), "{text}");
}
