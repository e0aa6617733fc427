// SPDX-License-Identifier: GPL-2.0-only
//! The screen as it is drawn: the table of domains, pCPUs, one vCPU, help.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use steelyard_boundary::text::{self, is_harmful};

use crate::columns::{
    COLUMNS, Column, DOMAIN_INDENT, Layout, Row, Unit, VCPU_INDENT, count, fitted, harmless,
    percent, time,
};
use crate::interval::{DomainInterval, Interval, VcpuInterval};
use crate::screen::{HISTORY, Screen, View};
use crate::table::{NOBODY, REST};
use crate::timeline::{Part, Who, last_waits, strips};
use steelyard_recording::State;

/// Lines that say more of the chosen row, where the screen has at least so many lines.
const DETAILS: usize = 3;
const ROOM_FOR_DETAILS: usize = 12;
/// Last waits of a vCPU.
const LAST_WAITS: usize = 50;
/// From this width on they stand beside the histogram, which takes so much.
const TWO_COLUMNS: usize = 120;
const HISTOGRAM: usize = 56;
/// Domains are told apart by these, and by letters.
const COLORS: [Color; 6] =
    [Color::Green, Color::Yellow, Color::Cyan, Color::Magenta, Color::Blue, Color::Red];
/// Characters of why something is not seen.
const REASON: usize = 1000;
const NO_SINGLE_WAITS: &str = "No single waits are seen: `?` says why.";

impl Screen {
    /// Draws all of it.
    pub fn draw(&mut self, frame: &mut Frame) {
        let area = frame.area();
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let body = height.saturating_sub(3);
        let mut lines = vec![self.heading(width), self.state(width)];
        lines.extend(match self.view {
            View::Domains if height >= ROOM_FOR_DETAILS => {
                let rows = body - DETAILS;
                let mut lines = self.table(width, rows);
                lines.resize(rows, Line::default());
                lines.extend(self.details(width));
                lines
            }
            View::Domains => self.table(width, body),
            View::Pcpus => self.scroll(self.pcpus(width), body, 1),
            View::Vcpu => self.scroll(self.vcpu(width), body, 1),
            View::Columns => {
                // The line that is chosen is seen, and so are the titles and what is more.
                self.scrolled = (self.column + 3).saturating_sub(body);
                self.scroll(self.columns(), body, 1)
            }
            View::Help => self.scroll(self.help(width), body, 0),
        });
        lines.truncate(height.saturating_sub(1));
        frame.render_widget(Paragraph::new(lines), area);
        if height > 3 {
            let last = Rect { y: area.height - 1, height: 1, ..area };
            let keys = match (self.typing, self.view) {
                (true, _) => format!("show domains with: {}_   Enter: done  Esc: all", self.filter),
                (_, View::Domains) => {
                    "q quit ? help Enter unfold v vCPU p pCPUs s sort / filter c columns w write"
                        .to_owned()
                }
                (_, View::Vcpu) => {
                    "Esc back  ? help  Up Down another vCPU  PgUp PgDn scroll  Space pause  q quit"
                        .to_owned()
                }
                (_, View::Columns) => {
                    "Space shows or hides  Up Down  d as many as fit  Esc back, and keep".to_owned()
                }
                _ => "Esc back  ? help  Up Down PgUp PgDn scroll  Space pause  q quit".to_owned(),
            };
            frame.render_widget(Line::styled(keys, self.faint()), last);
        }
        // Whoever forgot to make a name harmless draws nothing but characters all the same.
        for cell in &mut frame.buffer_mut().content {
            if cell.symbol().contains(is_harmful) {
                cell.set_char(char::REPLACEMENT_CHARACTER);
            }
        }
    }

    /// Of this text what is to be seen, below so many lines that stay.
    fn scroll(
        &mut self,
        mut lines: Vec<Line<'static>>,
        body: usize,
        fixed: usize,
    ) -> Vec<Line<'static>> {
        self.scrolled = self.scrolled.min(lines.len().saturating_sub(body));
        if body < lines.len() {
            let from = fixed.min(lines.len());
            lines.drain(from..from + self.scrolled.min(lines.len() - from));
            let more = lines.len().saturating_sub(body);
            lines.truncate(body);
            if let (Some(last), true) = (lines.last_mut(), more > 0) {
                *last = Line::styled(format!("{} lines more: PgDn", more + 1), self.faint());
            }
        }
        lines
    }

    fn heading(&self, width: usize) -> Line<'static> {
        let text = self.interval.as_ref().map_or_else(
            || "steelyard".to_owned(),
            |interval| {
                let when = interval.when();
                let left = width.saturating_sub(when.chars().count() + 1);
                format!("{} {when}", fitted(&interval.title(left), left))
            },
        );
        Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
    }

    fn state(&self, width: usize) -> Line<'static> {
        let mut words = vec![];
        if self.paused {
            words.push("paused".to_owned());
        }
        if !self.status.is_empty() {
            words.push(self.status.clone());
        }
        let alerts = self.interval.iter().flat_map(|it| &it.domains);
        match alerts.filter(|domain| self.alert(domain).is_some()).count() {
            0 => {}
            1 => words.push("1 ALERT".to_owned()),
            count => words.push(format!("{count} ALERTS")),
        }
        words.extend(self.remark.as_deref().map(harmless));
        if self.all {
            words.push("all".to_owned());
        }
        if let Some(column) = self.sort {
            words.push(format!("by {}", column.title(self.unit)));
        }
        if self.reversed {
            words.push("reversed".to_owned());
        }
        if !self.filter.is_empty() {
            words.push(format!("with \"{}\"", harmless(&self.filter)));
        }
        let words = words.join(", ");
        let Some(interval) = &self.interval else {
            return Line::raw(format!("looking for the first time  {words}"));
        };
        let bar = width.saturating_sub(words.chars().count() + 7).min(50);
        let mut spans = vec![Span::raw("pCPUs ")];
        spans.extend(self.bar(interval.busy_percent(), 0.0, bar));
        spans.push(Span::raw(format!(" {words}")));
        Line::from(spans)
    }

    fn table(&mut self, width: usize, height: usize) -> Vec<Line<'static>> {
        let places = self.places();
        let chosen = self.chosen(&places).unwrap_or(0);
        self.place = places.get(chosen).copied();
        let rest = self.interval.as_ref().filter(|interval| interval.has_rest());
        // The first line is that of the titles.
        let shown = height.saturating_sub(1 + usize::from(rest.is_some())).max(1);
        self.top = self.top.clamp((chosen + 1).saturating_sub(shown), chosen);
        let Some(interval) = &self.interval else { return vec![] };
        let chosen_columns = self.settings.columns();
        let layout = Layout::new(width, interval, &self.domains(), chosen_columns.as_deref());
        let underlined = Style::new().add_modifier(Modifier::UNDERLINED);
        let mut end = layout.name + if layout.bar > 0 { layout.bar + 1 } else { 0 };
        let mut titles = vec![Span::raw(fitted("DOMAIN", end))];
        let mut shown_columns = vec![];
        for &column in &layout.columns {
            let title = format!(" {:>1$}", column.title(self.unit), column.width);
            let sorted = self.sort.is_some_and(|sort| std::ptr::eq(sort, column));
            let style = if sorted { self.colored(Color::Cyan).bold() } else { Style::new() };
            titles.push(Span::styled(title, style));
            end += column.width + 1;
            shown_columns.push((end - 1, column));
        }
        let mut lines = vec![Line::from(titles).style(underlined)];
        let rows = self.rows();
        if rows.is_empty() {
            lines.push(Line::raw(match self.filter.is_empty() {
                true => NOBODY,
                false => "no domain has this in its name; Esc shows all",
            }));
        }
        for (index, row) in rows.iter().enumerate().skip(self.top).take(shown) {
            lines.push(self.row(*row, &layout, index == chosen));
        }
        lines.extend(rest.map(|interval| self.rest(interval, &layout)));
        self.shown = shown_columns;
        lines
    }

    /// What ran beside virtual machines, where the columns tell of CPU time.
    fn rest(&self, interval: &Interval, layout: &Layout) -> Line<'static> {
        let mut text = fitted(
            &format!("{:<DOMAIN_INDENT$}{REST}", ""),
            layout.name.max(REST.len() + DOMAIN_INDENT),
        );
        let mut end = layout.name + if layout.bar > 0 { layout.bar + 1 } else { 0 };
        for column in &layout.columns {
            end += column.width + 1;
            if column.title == "CPU" {
                let share = self.unit.share_of(interval.host.pcpus, interval.rest_percent);
                let room = end.saturating_sub(text.chars().count());
                text += &format!("{share:>room$}");
            }
        }
        Line::styled(text, self.faint())
    }

    fn alert(&self, domain: &DomainInterval) -> Option<String> {
        let shown = !domain.ended && (self.all || domain.virtual_machine);
        self.settings.alert.of(domain).filter(|_| shown)
    }

    fn columns(&self) -> Vec<Line<'static>> {
        let chosen = self.settings.columns();
        let titles = match chosen {
            Some(_) => "These columns are shown, as far as there is room:",
            None => "As many columns as there is room for are shown. Choose some:",
        };
        let mut lines = vec![Line::styled(titles, Style::new().add_modifier(Modifier::UNDERLINED))];
        let is_shown = |column: &Column| match &chosen {
            Some(chosen) => chosen.iter().any(|it| std::ptr::eq(*it, column)),
            None => self.shown.iter().any(|(_, it)| std::ptr::eq(*it, column)),
        };
        for (number, column) in COLUMNS.iter().enumerate() {
            let mark = if is_shown(column) { "x" } else { " " };
            let title = column.title(self.unit);
            let style = match number == self.column {
                true => Style::new().add_modifier(Modifier::REVERSED),
                false => Style::new(),
            };
            lines.push(Line::styled(format!("[{mark}] {title:<9}  {}", column.help), style));
        }
        lines
    }

    fn row(&self, row: Row, layout: &Layout, chosen: bool) -> Line<'static> {
        let began = self.marked.contains_key(&row.domain.id) && !row.domain.ended;
        let alert = row.vcpu.is_none() && self.alert(row.domain).is_some();
        let new = match (alert, began) {
            (true, _) => "!",
            (false, true) => "*",
            (false, false) => "",
        };
        let (mark, indent) = match row.vcpu {
            Some(_) => (String::new(), VCPU_INDENT),
            None if self.unfolded.contains(&row.domain.id) => (format!("-{new}"), DOMAIN_INDENT),
            None => (format!("+{new}"), DOMAIN_INDENT),
        };
        let name = fitted(&format!("{mark:<indent$}{}", row.name()), layout.name);
        let style = match (row.vcpu, began) {
            _ if alert => self.colored(Color::Red).bold(),
            (None, true) => self.colored(Color::Green).bold(),
            (None, false) if row.domain.ended => self.faint(),
            _ => Style::new(),
        };
        let mut spans = vec![Span::styled(name, style)];
        if row.domain.ended {
            spans.push(Span::styled(" ended", self.faint()));
        } else {
            if layout.bar > 0 {
                let vcpus = if row.vcpu.is_some() { 1 } else { row.domain.vcpus.len().max(1) };
                let waited = row.rates().waited_percent.unwrap_or(0.0) / vcpus as f64;
                spans.push(Span::raw(" "));
                spans.extend(self.bar(row.average_percent(), waited, layout.bar));
            }
            for column in &layout.columns {
                let text = (column.text)(row).unwrap_or_default();
                spans.push(Span::raw(format!(" {text:>0$}", column.width)));
            }
        }
        let style =
            if chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Line::from(spans).style(style)
    }

    /// What the table may have no room for, of the chosen row.
    fn details(&self, width: usize) -> [Line<'static>; DETAILS] {
        let rows = self.rows();
        let chosen = self.chosen(&self.places()).and_then(|index| rows.get(index));
        let Some(row) = chosen.filter(|row| !row.domain.ended) else {
            return Default::default();
        };
        let alert = self.alert(row.domain).map_or(String::new(), |why| format!("ALERT: {why}; "));
        let worst = match (&row.rates().worst_wait, &row.rates().waits) {
            (Some(worst), _) => {
                let ran = worst.ran.iter().map(|ran| (row.interval.who_ran(ran), ran.ran_ns));
                let name = match row.vcpu {
                    Some(vcpu) => harmless(&vcpu.name),
                    None => format!("{}/{}", harmless(&row.domain.name), worst.vcpu),
                };
                let (length, when) = (time(worst.length_ns), row.interval.moment(worst.start_ns));
                format!("worst wait: {name} {length} from {when} on; {}", meanwhile(ran))
            }
            (None, Some(_)) => "worst wait: none yet".to_owned(),
            (None, None) => NO_SINGLE_WAITS.to_owned(),
        };
        // Of a worst wait that fills more than two the table of the vCPU (`v`) has the rest.
        let worst = wrapped(&(alert + &worst), width, "  ").into_iter().take(DETAILS - 1);
        let mut lines = worst.chain(wrapped(&facts(*row), width, "  "));
        std::array::from_fn(|_| lines.next().unwrap_or_default())
    }

    fn pcpus(&self, width: usize) -> Vec<Line<'static>> {
        let Some(interval) = &self.interval else { return vec![] };
        let before = (width / 10).clamp(6, HISTORY);
        let here = (width / 7).clamp(11, 28);
        let left = width.saturating_sub(4 + 1 + 5 + 1 + before + 1 + 5 + 1 + here + 1);
        let strips = strips(interval, left);
        let last = match strips {
            Some(_) => format!("WHO RAN, {}", interval.when()),
            None => String::new(),
        };
        let (titles, runs) = (format!("{:<before$}", "BEFORE"), format!("{:<here$}", "NOW"));
        let titles = format!("pCPU BUSY% {titles} QUEUE {runs} {last}");
        let mut lines = vec![Line::styled(titles, Style::new().add_modifier(Modifier::UNDERLINED))];
        for (number, busy) in interval.pcpus_busy_percent.iter().enumerate() {
            let newest = self.busy.iter().rev().take(before).rev();
            let levels: String =
                newest.map(|busy| self.level(busy.get(number).copied().unwrap_or(0.0))).collect();
            let vcpus = |state: State| vcpus_on(interval, number, state);
            let runnable = vcpus(State::Runnable);
            // Of those of which it is not known one at most runs.
            let queue = vcpus(State::Waiting).len() + runnable.len().saturating_sub(1);
            let now = [vcpus(State::Running), runnable].concat().join(" ");
            let known = interval.domains.iter().flat_map(|d| &d.vcpus).any(|v| v.pcpu.is_some());
            let queue = if known { queue.to_string() } else { "-".to_owned() };
            let now = match strips {
                Some(_) => fitted(&now, here),
                None => harmless(&now),
            };
            let busy = percent(*busy);
            let mut spans = vec![Span::raw(format!(
                "{number:>4} {busy:>5} {levels:<before$} {queue:>5} {now} "
            ))];
            if let Some(strip) = strips.as_ref().and_then(|strips| strips.get(number)) {
                spans.extend(strip.iter().map(|part| self.part(interval, *part)));
            }
            lines.push(Line::from(spans));
        }
        lines.push(Line::default());
        match strips {
            Some(strips) => lines.extend(self.legend(interval, &strips, width)),
            None => lines.push(Line::styled(
                "No single runs were seen in this interval, so there is no timeline.",
                self.faint(),
            )),
        }
        lines
    }

    fn part(&self, interval: &Interval, part: Part) -> Span<'static> {
        let Some((who, most)) = part else { return Span::raw(" ") };
        let (letter, color) = self.letter(interval, who);
        let (letter, style) = match (most, color) {
            (true, Some(color)) => (letter, Style::new().fg(Color::Black).bg(color)),
            (false, Some(color)) => (letter.to_ascii_lowercase(), Style::new().fg(color)),
            (true, None) => (letter, Style::new()),
            (false, None) => (letter.to_ascii_lowercase(), Style::new()),
        };
        Span::styled(letter.to_string(), style)
    }

    fn letter(&self, interval: &Interval, who: Who) -> (char, Option<Color>) {
        let Who::Domain(index) = who else { return ('*', None) };
        let domain = interval.domains.get(index);
        let number = domain.and_then(|domain| self.numbers.get(&domain.id)).copied().unwrap_or(0);
        let letter = char::from(b'A' + (number % 26) as u8);
        (letter, self.looks.color.then_some(COLORS[number % COLORS.len()]))
    }

    /// Whose letters those in the strips are.
    fn legend(
        &self,
        interval: &Interval,
        strips: &[Vec<Part>],
        width: usize,
    ) -> Vec<Line<'static>> {
        let (mut lines, mut line, mut used) = (vec![], vec![], 0);
        let ran = |who: Who| strips.iter().flatten().flatten().any(|(known, _)| *known == who);
        let domains = interval.domains.iter().enumerate();
        let names = domains.map(|(index, domain)| (Who::Domain(index), domain.name.as_str()));
        for (who, name) in names.chain([(Who::Other, "others")]).filter(|(who, _)| ran(*who)) {
            let text = format!(" {}  ", harmless(name));
            let length = text.chars().count() + 1;
            if used + length > width && used > 0 {
                lines.push(Line::from(std::mem::take(&mut line)));
                used = 0;
            }
            line.push(self.part(interval, Some((who, true))));
            line.push(Span::raw(text));
            used += length;
        }
        lines.push(Line::from(line));
        let words = "The domain that ran longest in each part; a capital if for half of it.";
        lines.push(Line::styled(words, self.faint()));
        lines
    }

    fn vcpu(&self, width: usize) -> Vec<Line<'static>> {
        let Some((interval, (domain, index, vcpu))) =
            self.interval.as_ref().zip(self.chosen_vcpu())
        else {
            return vec![Line::raw("It is not there any more; Esc goes back.")];
        };
        let row = Row { unit: self.unit, ..Row::of(interval, domain) }.vcpu(vcpu);
        let rates = &vcpu.rates;
        let per_s =
            |rate: Option<f64>| rate.map_or("not seen".to_owned(), |rate| format!("{rate:.1}"));
        let at = match (vcpu.state, vcpu.pcpu) {
            (Some(state), Some(pcpu)) => format!(", {} on pCPU {pcpu}", state.word()),
            (Some(state), None) => format!(", {}", state.word()),
            _ => String::new(),
        };
        let names =
            harmless(&format!("{}, {} ({}/{index}){at}", domain.name, vcpu.name, domain.name));
        let mut lines = vec![Line::styled(names, Style::new().add_modifier(Modifier::UNDERLINED))];
        lines.extend(wrapped(&facts(row), width, "  "));
        lines.push(Line::raw(format!(
            "per second: switches {}, migrations {}, preemptions {}",
            per_s(rates.switches_per_s),
            per_s(rates.migrations_per_s),
            per_s(rates.preemptions_per_s),
        )));
        lines.push(Line::default());
        let Some(waits) = &rates.waits else {
            lines.push(Line::raw(NO_SINGLE_WAITS));
            return lines;
        };
        let Some(worst) = &rates.worst_wait else {
            lines.push(Line::raw("It has never waited."));
            return lines;
        };
        let (length, when) = (time(worst.length_ns), interval.moment(worst.start_ns));
        let ran = worst.ran.iter().map(|ran| (interval.who_ran(ran), ran.ran_ns));
        let worst = format!("worst wait: {length} from {when} on; {}", meanwhile(ran));
        lines.extend(wrapped(&worst, width, "  "));
        lines.push(Line::default());
        let beside = width >= TWO_COLUMNS;
        let left = if beside { HISTOGRAM } else { width };
        let mut histogram = vec![Line::raw("Waits that ended, by their length:")];
        let all: u128 = waits.iter().map(|&(_, count)| u128::from(count)).sum();
        for (bound_ns, number) in by_octave(waits) {
            let share = 100.0 * number as f64 / all.max(1) as f64;
            let number =
                if number < 10_000_000 { number.to_string() } else { count(number as f64) };
            let mut spans = vec![Span::raw(format!("  up to {:>6} {number:>7} ", time(bound_ns)))];
            spans.extend(self.bar(share, 0.0, left.saturating_sub(25).min(50)));
            histogram.push(Line::from(spans));
        }
        let room = if beside { width - HISTOGRAM } else { width };
        let past = self.last_waits(interval, (domain.id, vcpu), room);
        if !beside {
            lines.extend(histogram);
            lines.push(Line::default());
            lines.extend(past);
            return lines;
        }
        let rows = histogram.len().max(past.len());
        let (mut histogram, mut past) = (histogram.into_iter(), past.into_iter());
        for _ in 0..rows {
            let mut line = histogram.next().unwrap_or_default();
            let filled = left.saturating_sub(line.width());
            line.push_span(Span::raw(" ".repeat(filled)));
            line.extend(past.next().unwrap_or_default());
            lines.push(line);
        }
        lines
    }

    fn last_waits(
        &self,
        interval: &Interval,
        (domain, vcpu): (u64, &VcpuInterval),
        width: usize,
    ) -> Vec<Line<'static>> {
        let mut lines = vec![Line::raw("Its last waits, the newest first:")];
        let waits = last_waits(self.timelines.iter(), (domain, vcpu.id), vcpu.pcpu, LAST_WAITS);
        if waits.is_empty() {
            lines.push(Line::styled("  none in what was seen last", self.faint()));
        }
        lines.extend(waits.into_iter().flat_map(|wait| {
            let (when, length) = (interval.moment(wait.start_ns), time(wait.length_ns));
            let wait = format!("  {when}  {length:>6}  {}", meanwhile(wait.ran.into_iter()));
            wrapped(&wait, width, "    ")
        }));
        lines
    }

    fn help(&self, width: usize) -> Vec<Line<'static>> {
        let mut lines: Vec<_> = [
            "Up Down PgUp PgDn Home End   choose a row; scroll",
            "Enter Right Left   a         unfold or fold a domain; all of them",
            "v, Enter on a vCPU           one vCPU: its waits, and who ran meanwhile",
            "p                            pCPUs: who ran there and when, who waits there",
            "s S r, click on a title      sort by the next column, the one before; reverse",
            "/                            only domains with this in their names; Esc: all",
            "u                            % of one pCPU, %H of the host, ms per second",
            "c                            choose columns; they are kept",
            "o                            who is no virtual machine, too (of recordings)",
            "w                            write what is shown to steelyard-top-TIME.csv",
            "Space   + -                  stop, go on; interval, or speed of a replay",
            "q   Ctrl-Z                   end; suspend, fg goes on",
            "In a recording or simulation:",
            ". ,   > <   [ ]              on, back; ten on, ten back; first, last",
            "b                            time goes back, or forwards again",
            "",
            "In bars # or blocks are time running, : or shade is time waiting, per vCPU.",
            "With * a domain came a moment ago, with ! it is past a threshold. Columns:",
        ]
        .map(Line::raw)
        .to_vec();
        for column in &COLUMNS {
            let text = format!("{:<9}  {}", column.title(self.unit), column.help);
            lines.extend(wrapped(&text, width, "           "));
        }
        let unseen = self.interval.iter().flat_map(|interval| &interval.host.unseen);
        for what in unseen {
            let what = format!("Not seen: {}", text::harmless(&text::short(what, REASON)));
            lines.extend(wrapped(&what, width, "          "));
        }
        lines
    }

    /// Two parts of a whole as a bar.
    fn bar(&self, first: f64, second: f64, width: usize) -> Vec<Span<'static>> {
        // Eighths of characters.
        let eighths =
            |percent: f64| ((percent / 100.0).clamp(0.0, 1.0) * width as f64 * 8.0) as usize;
        let end = eighths(first + second).div_ceil(8);
        let (mut bar, full) = match self.looks.blocks {
            true => ("█".repeat(eighths(first) / 8), eighths(first) / 8),
            false => {
                let full = (eighths(first) + 4) / 8;
                ("#".repeat(full), full)
            }
        };
        let mut length = full;
        if self.looks.blocks && eighths(first) % 8 > 0 {
            bar.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths(first) % 8 - 1]);
            length += 1;
        }
        let waited = if second > 0.0 { end.saturating_sub(length) } else { 0 };
        let mark = if self.looks.blocks { "░" } else { ":" };
        let rest = width.saturating_sub(length + waited);
        vec![
            Span::styled(bar, self.colored(Color::Green)),
            Span::styled(mark.repeat(waited), self.colored(Color::Red)),
            Span::raw(" ".repeat(rest)),
        ]
    }

    fn level(&self, percent: f64) -> char {
        let levels: &[char] = match self.looks.blocks {
            true => &[' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            false => &[' ', '.', '-', '=', '#'],
        };
        let last = levels.len() - 1;
        levels[((percent / 100.0 * last as f64).round() as usize).min(last)]
    }

    fn colored(&self, color: Color) -> Style {
        if self.looks.color { Style::new().fg(color) } else { Style::new() }
    }

    fn faint(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }
}

/// Text in lines of this width, the second and what follows moved to the right.
fn wrapped(text: &str, width: usize, indent: &str) -> Vec<Line<'static>> {
    let options = textwrap::Options::new(width.max(20)).subsequent_indent(indent);
    let lines = textwrap::wrap(text, options).into_iter();
    lines.map(|line| Line::raw(line.into_owned())).collect()
}

/// Times, and what was set and what a policy made of it.
fn facts(row: Row) -> String {
    let rates = row.rates();
    let unit = match row.unit {
        Unit::OfPcpu => "%",
        Unit::OfHost => "% of the host",
        Unit::PerSecond => "ms/s",
    };
    let shares = [Some(rates.gotten_percent), rates.waited_percent, rates.blocked_percent];
    let [gotten, waited, blocked] =
        shares.map(|share| share.map_or_else(|| "-".to_owned(), |share| row.share(share)));
    let mut words = vec![format!("gotten {gotten}, waited {waited}, blocked {blocked} {unit}")];
    words.extend(row.domain.emulator_percent.map(|it| format!("emulator {}", row.share(it))));
    let weight = row.domain.weight.map_or("not known".to_owned(), |weight| weight.to_string());
    words.push(match row.policy(|policy| Some(policy.weight)) {
        Some(now) if Some(now) != row.domain.weight.map(u64::from) => {
            format!("weight {weight} now {now}")
        }
        _ => format!("weight {weight}"),
    });
    if let Some(cap_percent) = row.domain.cap_percent.filter(|&cap_percent| cap_percent > 0) {
        words.push(format!("cap {cap_percent} %"));
    }
    words.extend(row.policy(|policy| policy.slice_ns).map(|ns| format!("slice {}", time(ns))));
    words.extend(row.policy(|policy| Some(policy.credit)).map(|credit| format!("credit {credit}")));
    words.extend(row.policy(|policy| policy.class.clone()).map(|class| harmless(&class)));
    if row.policy(|policy| Some(policy.boosted)) == Some(true) {
        words.push("boosted".to_owned());
    }
    words.join("; ")
}

/// Who ran while somebody waited.
fn meanwhile(ran: impl Iterator<Item = (String, u64)>) -> String {
    let ran: Vec<_> = ran.map(|(name, ns)| format!("{} {}", harmless(&name), time(ns))).collect();
    match ran.is_empty() {
        true => "who ran meanwhile was not seen".to_owned(),
        false => format!("meanwhile {}", ran.join(", ")),
    }
}

/// The vCPUs of a pCPU that are in this state.
fn vcpus_on(interval: &Interval, pcpu: usize, state: State) -> Vec<String> {
    let vcpus = interval.domains.iter().flat_map(|domain| {
        domain.vcpus.iter().enumerate().map(move |(index, vcpu)| (domain, index, vcpu))
    });
    let here = vcpus.filter(|(_, _, vcpu)| {
        vcpu.state == Some(state) && vcpu.pcpu.is_some_and(|known| known as usize == pcpu)
    });
    here.map(|(domain, index, _)| format!("{}/{index}", domain.name)).collect()
}

/// Buckets of twice the length each.
fn by_octave(waits: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut octaves: Vec<(u64, u64)> = vec![];
    for &(bound_ns, count) in waits {
        let octave_ns = bound_ns.checked_next_power_of_two().unwrap_or(u64::MAX);
        match octaves.last_mut() {
            Some((last_ns, total)) if *last_ns == octave_ns => *total = total.saturating_add(count),
            _ => octaves.push((octave_ns, count)),
        }
    }
    octaves
}
