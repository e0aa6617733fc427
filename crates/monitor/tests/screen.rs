// SPDX-License-Identifier: GPL-2.0-only
//! What the screen shows of known snapshots, to the character, and how it answers keys.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use steelyard_monitor::{Action, Interval, Looks, Screen};
use steelyard_recording::{Domain, Figures, Host, Snapshot, State, Structure, Vcpu, Waits};
use steelyard_simulator::measure::{Ran, WorstWait};

const MS: u64 = 1_000_000;

/// Two domains over a second: "web" with two vCPUs and "batch" with one.
fn interval() -> Interval {
    let vcpu = |id| Vcpu { id, name: format!("vCPU {id}") };
    let domain = |id, name: &str, weight, vcpus| Domain {
        id,
        name: name.to_owned(),
        weight,
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
    let figures = |gotten_ms: u64, waited_ms: u64, pcpu, waits: &[(u64, u64)]| Figures {
        state: Some(if waited_ms > 0 { State::Waiting } else { State::Running }),
        pcpu: Some(pcpu),
        gotten_ns: gotten_ms * MS,
        waited_ns: waited_ms * MS,
        switches: gotten_ms,
        migrations: Some(3),
        preemptions: Some(0),
        waits: Some(Waits {
            histogram: waits.to_vec(),
            worst: waits.last().map(|&(length_ns, _)| WorstWait {
                vcpu: 0,
                start_ns: 250 * MS,
                length_ns,
                ran: vec![Ran { domain: "batch".to_owned(), vcpu: 0, ran_ns: length_ns }],
            }),
        }),
        policy: None,
    };
    let nothing = Snapshot {
        structure: structure.clone(),
        time_ns: 0,
        idle_ns: vec![0, 0],
        vcpus: vec![figures(0, 0, 0, &[]); 3],
        segments: vec![],
        others: vec![],
    };
    let after = Snapshot {
        structure,
        time_ns: 1000 * MS,
        idle_ns: vec![0, 500 * MS],
        vcpus: vec![
            figures(500, 250, 0, &[(MS, 90), (30 * MS, 10)]),
            figures(100, 0, 1, &[]),
            figures(900, 100, 0, &[(2 * MS, 50)]),
        ],
        segments: vec![],
        others: vec![],
    };
    Interval::between(&nothing, &after)
}

fn screen() -> Screen {
    let mut screen = Screen::new(Looks { blocks: false, color: false });
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

/// One of `tests/data`.
fn expected(name: &str) -> String {
    let path = format!("{}/tests/data/{name}.screen", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
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
    press(&mut screen, "\n");
    assert_eq!(drawn(&mut screen, 80, 12), expected("domains"));
    press(&mut screen, "Vv");
    assert_eq!(drawn(&mut screen, 80, 18), expected("vcpu"));
    press(&mut screen, "p");
    assert_eq!(drawn(&mut screen, 80, 8), expected("pcpus"));
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
    assert!(help.contains("WAIT%") && help.contains("Not seen: The future."), "{help}");
    let key = |screen: &mut Screen, code| screen.key(KeyEvent::new(code, KeyModifiers::NONE));
    assert_eq!(key(&mut screen, KeyCode::Char('q')), Action::Quit);
    assert_eq!(key(&mut screen, KeyCode::Char(' ')), Action::Pause);
    assert_eq!(key(&mut screen, KeyCode::Char(',')), Action::Step(-1));
}

#[test]
fn it_can_be_drawn_at_any_size_in_any_view() {
    for looks in [Looks { blocks: false, color: false }, Looks { blocks: true, color: true }] {
        for keys in ["", "a", "aV", "v", "p", "?", "/x", "/nobody\n", "\n\nVVVVV"] {
            let mut screen = Screen::new(looks);
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
    assert!(small.contains("vCPU 0") && small.contains("90.0"), "{small}");
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
    // There is nothing.
    assert_eq!(click(&mut screen, 0), unfolded);
    assert_eq!(click(&mut screen, 20), unfolded);
}

#[test]
fn wider_screens_show_more_and_batches_show_the_same() {
    let wide = drawn(&mut screen(), 200, 10);
    for title in ["AVG%", "P99", "WORST", "BLK%", "MIG/s", "CAP%"] {
        assert!(wide.contains(title), "{title}: {wide}");
    }
    let table = interval().to_table(200);
    assert!(table.contains("MIG/s") && table.contains("30.0ms"), "{table}");
    for width in [10, 40, 80, 100, 200] {
        let table = interval().to_table(width);
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
    let mut screen = Screen::new(Looks { blocks: false, color: false });
    screen.show(interval.clone());
    press(&mut screen, "a");
    for text in [interval.to_table(80), interval.to_bars(80), drawn(&mut screen, 80, 24)] {
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
        "batch    vCPU 0   90.0 % |#############################   |",
        "         average  90.0 % |#############################   |",
    ];
    assert_eq!(bars.lines().skip(1).collect::<Vec<_>>(), expected);
}
