// SPDX-License-Identifier: GPL-2.0-only
//! What `steelyard top` shows and how it answers keys; knows no terminal and no clock.

use std::collections::{HashSet, VecDeque};

use ratatui::Frame;
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::columns::{COLUMNS, DOMAIN_INDENT, Layout, Row, VCPU_INDENT, fitted, percent, time};
use crate::interval::{DomainInterval, Interval, VcpuInterval};
use crate::table::NOBODY;
use steelyard_recording::State;

/// Intervals of which the pCPUs' strips are made, at most.
const STRIP: usize = 200;

/// Lines above the first row of the table.
const ABOVE_ROWS: usize = 3;

/// How it may look.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// The terminal has blocks of fractions of a character.
    pub blocks: bool,
    /// Colours are wanted.
    pub color: bool,
}

/// What a key asks of whoever feeds the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing but to be drawn again.
    Draw,
    /// To end.
    Quit,
    /// To stop, or to go on.
    Pause,
    /// So many intervals forwards; back if negative.
    Step(isize),
    /// The first interval.
    First,
    /// The last interval.
    Last,
    /// Twice as often; of a recording, twice as fast.
    Faster,
    /// Half as often; of a recording, half as fast.
    Slower,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Domains,
    Pcpus,
    Vcpu,
    Help,
}

/// A domain by its id, or a vCPU of it.
type Place = (u64, Option<u64>);

/// The state of the screen.
pub struct Screen {
    looks: Looks,
    view: View,
    interval: Option<Interval>,
    /// How busy each pCPU was, the newest last.
    strips: VecDeque<Vec<f64>>,
    /// The chosen row.
    place: Option<Place>,
    /// Row at the top, so that the chosen one is seen.
    top: usize,
    unfolded: HashSet<u64>,
    /// By the column of this number; none: as the source has them.
    sort: Option<usize>,
    reversed: bool,
    filter: String,
    typing: bool,
    paused: bool,
    /// Where in a recording, how fast.
    status: String,
}

impl Screen {
    /// With nothing to show yet.
    pub fn new(looks: Looks) -> Screen {
        Screen {
            looks,
            view: View::Domains,
            interval: None,
            strips: VecDeque::new(),
            place: None,
            top: 0,
            unfolded: HashSet::new(),
            sort: None,
            reversed: false,
            filter: String::new(),
            typing: false,
            paused: false,
            status: String::new(),
        }
    }

    /// From now on it shows this interval.
    pub fn show(&mut self, interval: Interval) {
        if self.strips.len() == STRIP {
            self.strips.pop_front();
        }
        self.strips.push_back(interval.pcpus_busy_percent.clone());
        self.interval = Some(interval);
    }

    /// Says how it goes on.
    pub fn set_status(&mut self, paused: bool, status: String) {
        self.paused = paused;
        self.status = status;
    }

    /// Whether it shows what single vCPUs do, and where.
    pub fn shows_states(&self) -> bool {
        self.view == View::Pcpus || !self.unfolded.is_empty()
    }

    /// Answers a key.
    pub fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Action::Quit } else { Action::Draw };
        }
        if self.typing {
            match key.code {
                KeyCode::Char(letter) => self.filter.push(letter),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Enter => self.typing = false,
                KeyCode::Esc => {
                    self.typing = false;
                    self.filter.clear();
                }
                _ => {}
            }
            return Action::Draw;
        }
        if matches!(key.code, KeyCode::Char(',' | '<' | '>' | '[' | ']')) {
            // What comes then was not before what is shown then.
            self.strips.clear();
        }
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char(' ') => return Action::Pause,
            KeyCode::Char('+' | '=') => return Action::Faster,
            KeyCode::Char('-') => return Action::Slower,
            KeyCode::Char('.') => return Action::Step(1),
            KeyCode::Char(',') => return Action::Step(-1),
            KeyCode::Char('>') => return Action::Step(10),
            KeyCode::Char('<') => return Action::Step(-10),
            KeyCode::Char('[') => return Action::First,
            KeyCode::Char(']') => return Action::Last,
            KeyCode::Char('?' | 'h') => self.toggle(View::Help),
            KeyCode::Char('p') => self.toggle(View::Pcpus),
            KeyCode::Char('v') => self.toggle(View::Vcpu),
            KeyCode::Esc if self.view == View::Domains => self.filter.clear(),
            KeyCode::Esc => self.view = View::Domains,
            KeyCode::Char('/') => {
                self.view = View::Domains;
                self.typing = true;
            }
            KeyCode::Char('s') => {
                self.sort = self
                    .sort
                    .map_or(Some(0), |column| (column + 1 < COLUMNS.len()).then_some(column + 1));
            }
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('a') => {
                let domains = self.interval.iter().flat_map(|interval| &interval.domains);
                self.unfolded = match self.unfolded.is_empty() {
                    true => domains.map(|domain| domain.id).collect(),
                    false => HashSet::new(),
                };
            }
            KeyCode::Down | KeyCode::Char('j') => self.choose(1),
            KeyCode::Up | KeyCode::Char('k') => self.choose(-1),
            KeyCode::PageDown => self.choose(10),
            KeyCode::PageUp => self.choose(-10),
            KeyCode::Home => self.choose(isize::MIN),
            KeyCode::End => self.choose(isize::MAX),
            KeyCode::Enter | KeyCode::Right | KeyCode::Left => self.fold(key.code),
            _ => {}
        }
        Action::Draw
    }

    /// Answers the mouse: a click chooses a row, a click on the chosen one unfolds it.
    pub fn mouse(&mut self, mouse: MouseEvent) {
        match mouse.kind {
            MouseEventKind::ScrollDown => self.choose(3),
            MouseEventKind::ScrollUp => self.choose(-3),
            MouseEventKind::Down(MouseButton::Left) if self.view == View::Domains => {
                let row = usize::from(mouse.row).checked_sub(ABOVE_ROWS).map(|row| row + self.top);
                match row.and_then(|row| self.places().get(row).copied()) {
                    Some(place) if self.place == Some(place) => self.fold(KeyCode::Enter),
                    Some(place) => self.place = Some(place),
                    None => {}
                }
            }
            _ => {}
        }
    }

    fn toggle(&mut self, view: View) {
        self.view = if self.view == view { View::Domains } else { view };
    }

    fn fold(&mut self, key: KeyCode) {
        let Some((domain, vcpu)) = self.place.or_else(|| self.places().first().copied()) else {
            return;
        };
        let unfold = match key {
            KeyCode::Right => true,
            KeyCode::Left => false,
            _ => !self.unfolded.contains(&domain),
        };
        if vcpu.is_some() && key == KeyCode::Enter {
            self.view = View::Vcpu;
        } else if unfold {
            self.unfolded.insert(domain);
        } else {
            self.unfolded.remove(&domain);
            self.place = Some((domain, None));
        }
    }

    fn choose(&mut self, rows: isize) {
        let places = self.places();
        let now = self.chosen(&places).unwrap_or(0);
        let next = now.saturating_add_signed(rows).min(places.len().saturating_sub(1));
        self.place = places.get(next).copied();
    }

    fn chosen(&self, places: &[Place]) -> Option<usize> {
        places.iter().position(|place| Some(*place) == self.place)
    }

    /// The domains that are shown, in order.
    fn domains(&self) -> Vec<&DomainInterval> {
        let filter = self.filter.to_lowercase();
        let domains = self.interval.iter().flat_map(|interval| &interval.domains);
        let mut domains: Vec<_> =
            domains.filter(|domain| domain.name.to_lowercase().contains(&filter)).collect();
        if let Some(column) = self.sort {
            let order = COLUMNS[column].order;
            domains.sort_by(|a, b| order(b).total_cmp(&order(a)));
        }
        if self.reversed {
            domains.reverse();
        }
        domains
    }

    fn rows(&self) -> Vec<Row<'_>> {
        let rows = self.domains().into_iter().flat_map(|domain| {
            let unfolded = self.unfolded.contains(&domain.id);
            let vcpus = domain.vcpus.iter().filter(move |_| unfolded);
            let vcpus = vcpus.map(move |vcpu| Row { domain, vcpu: Some(vcpu) });
            [Row { domain, vcpu: None }].into_iter().chain(vcpus)
        });
        rows.collect()
    }

    fn places(&self) -> Vec<Place> {
        let place = |row: &Row| (row.domain.id, row.vcpu.map(|vcpu| vcpu.id));
        self.rows().iter().map(place).collect()
    }

    /// Draws all of it.
    pub fn draw(&mut self, frame: &mut Frame) {
        let area = frame.area();
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let body = height.saturating_sub(3);
        let mut lines = vec![self.heading(width), self.state(width)];
        lines.extend(match self.view {
            View::Domains => self.table(width, body),
            View::Pcpus => self.pcpus(width),
            View::Vcpu => self.vcpu(width),
            View::Help => self.help(),
        });
        lines.truncate(height.saturating_sub(1));
        frame.render_widget(Paragraph::new(lines), area);
        if height > 3 {
            let last = Rect { y: area.height - 1, height: 1, ..area };
            let keys = match self.typing {
                true => format!("show domains with: {}_   Enter: done  Esc: all", self.filter),
                false => {
                    "q quit  ? help  Enter unfold  v vCPU  p pCPUs  s sort  / filter  Space pause"
                        .to_owned()
                }
            };
            frame.render_widget(Line::styled(keys, self.faint()), last);
        }
    }

    fn heading(&self, width: usize) -> Line<'static> {
        let text = self.interval.as_ref().map_or_else(
            || "steelyard".to_owned(),
            |interval| {
                let when = interval.when();
                let left = width.saturating_sub(when.chars().count() + 1);
                format!("{} {when}", fitted(&interval.title(), left))
            },
        );
        Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
    }

    fn state(&self, width: usize) -> Line<'static> {
        let Some(interval) = &self.interval else { return Line::raw("looking for the first time") };
        let mut words = vec![];
        if self.paused {
            words.push("paused".to_owned());
        }
        if !self.status.is_empty() {
            words.push(self.status.clone());
        }
        if let Some(column) = self.sort {
            words.push(format!("by {}", COLUMNS[column].title));
        }
        if !self.filter.is_empty() {
            words.push(format!("with \"{}\"", self.filter));
        }
        let words = words.join(", ");
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
        // The first line is that of the titles.
        let shown = height.saturating_sub(1).max(1);
        self.top = self.top.clamp((chosen + 1).saturating_sub(shown), chosen);
        let domains = self.interval.as_ref().map_or(&[][..], |interval| &interval.domains);
        let layout = Layout::new(width, domains);
        let mut titles = fitted("DOMAIN", layout.name);
        if layout.bar > 0 {
            titles.push_str(&" ".repeat(layout.bar + 1));
        }
        for column in &layout.columns {
            titles.push_str(&format!(" {:>1$}", column.title, column.width));
        }
        let mut lines = vec![Line::styled(titles, Style::new().add_modifier(Modifier::UNDERLINED))];
        let rows = self.rows();
        if rows.is_empty() {
            let text = match (&self.interval, self.filter.is_empty()) {
                (Some(_), true) => NOBODY,
                (Some(_), false) => "no domain has this in its name; Esc shows all",
                (None, _) => "",
            };
            lines.push(Line::raw(text));
        }
        for (index, row) in rows.iter().enumerate().skip(self.top).take(shown) {
            lines.push(self.row(*row, &layout, index == chosen));
        }
        lines
    }

    fn row(&self, row: Row, layout: &Layout, chosen: bool) -> Line<'static> {
        let (mark, indent) = match row.vcpu {
            Some(_) => ("", VCPU_INDENT),
            None if self.unfolded.contains(&row.domain.id) => ("-", DOMAIN_INDENT),
            None => ("+", DOMAIN_INDENT),
        };
        let name = fitted(&format!("{mark:<indent$}{}", row.name()), layout.name);
        let mut spans = vec![Span::raw(name)];
        if row.domain.ended {
            spans.push(Span::styled(" ended", self.faint()));
        } else {
            if layout.bar > 0 {
                let vcpus = if row.vcpu.is_some() { 1 } else { row.domain.vcpus.len().max(1) };
                let waited = row.rates().waited_percent / vcpus as f64;
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

    fn pcpus(&self, width: usize) -> Vec<Line<'static>> {
        let Some(interval) = &self.interval else { return vec![] };
        let vcpus = || {
            let domains = interval.domains.iter();
            domains.flat_map(|domain| domain.vcpus.iter().map(move |vcpu| (domain, vcpu)))
        };
        let strip = (width / 4).clamp(8, STRIP);
        let mut lines = vec![Line::styled(
            format!("pCPU {:1$} BUSY%  {2:<strip$}  vCPUs that run or wait here", "", 12, "BEFORE"),
            Style::new().add_modifier(Modifier::UNDERLINED),
        )];
        for (number, busy) in interval.pcpus_busy_percent.iter().enumerate() {
            let mut spans = vec![Span::raw(format!("{number:>4} "))];
            spans.extend(self.bar(*busy, 0.0, 12));
            spans.push(Span::raw(format!(" {:>5}  ", percent(*busy))));
            let newest = self.strips.iter().rev().take(strip).rev();
            let levels: String =
                newest.map(|busy| self.level(busy.get(number).copied().unwrap_or(0.0))).collect();
            spans.push(Span::raw(format!("{levels:<strip$}  ")));
            let here = vcpus().filter(|(_, vcpu)| {
                vcpu.pcpu == Some(number as u32)
                    && !matches!(vcpu.state, None | Some(State::Blocked))
            });
            let here: Vec<_> =
                here.map(|(domain, vcpu)| format!("{}/{}", domain.name, vcpu.name)).collect();
            spans.push(Span::raw(here.join(", ")));
            lines.push(Line::from(spans));
        }
        if vcpus().all(|(_, vcpu)| vcpu.pcpu.is_none()) {
            lines.push(Line::styled("where vCPUs are is not known", self.faint()));
        }
        lines
    }

    fn vcpu(&self, width: usize) -> Vec<Line<'static>> {
        let found =
            self.interval.iter().flat_map(|interval| &interval.domains).find_map(|domain| {
                let (of, vcpu) = self.place?;
                let chosen = |known: &&VcpuInterval| vcpu.is_none_or(|vcpu| vcpu == known.id);
                (domain.id == of).then(|| Some((domain, domain.vcpus.iter().find(chosen)?)))?
            });
        let Some((domain, vcpu)) = found else {
            return vec![Line::raw("it is not there any more")];
        };
        let rates = &vcpu.rates;
        let per_s =
            |rate: Option<f64>| rate.map_or("not seen".to_owned(), |rate| format!("{rate:.1}"));
        let mut lines = vec![
            Line::styled(
                format!("{}, {}", domain.name, vcpu.name),
                Style::new().add_modifier(Modifier::UNDERLINED),
            ),
            Line::raw(format!(
                "gotten {} %   waited {} %   blocked {} %",
                percent(rates.gotten_percent),
                percent(rates.waited_percent),
                percent(rates.blocked_percent),
            )),
            Line::raw(format!(
                "per second: switches {:.1}   migrations {}   preemptions {}",
                rates.switches_per_s,
                per_s(rates.migrations_per_s),
                per_s(rates.preemptions_per_s),
            )),
            Line::raw(""),
        ];
        let Some(waits) = &rates.waits else {
            lines.push(Line::raw("Single waits are not seen by this source."));
            return lines;
        };
        match &rates.worst_wait {
            Some(worst) => {
                lines.push(Line::raw(format!(
                    "Worst wait: {}, from {:.6} s on. Meanwhile there ran:",
                    time(worst.length_ns),
                    worst.start_ns as f64 / 1e9,
                )));
                for ran in worst.ran.iter().take(5) {
                    let (name, vcpu, ran) = (&ran.domain, ran.vcpu, time(ran.ran_ns));
                    lines.push(Line::raw(format!(
                        "  {}  {ran:>6}",
                        fitted(&format!("{name}/{vcpu}"), 24)
                    )));
                }
            }
            None => {
                lines.push(Line::raw("It has never waited."));
                return lines;
            }
        }
        lines.push(Line::raw(""));
        lines.push(Line::raw("Waits that ended, by their length:"));
        let all: u128 = waits.iter().map(|&(_, count)| u128::from(count)).sum();
        for (bound_ns, count) in by_octave(waits) {
            let share = 100.0 * count as f64 / all.max(1) as f64;
            let mut spans = vec![Span::raw(format!("  up to {:>6} {count:>8} ", time(bound_ns)))];
            spans.extend(self.bar(share, 0.0, width.saturating_sub(26).min(50)));
            lines.push(Line::from(spans));
        }
        lines
    }

    fn help(&self) -> Vec<Line<'static>> {
        let mut lines: Vec<_> = [
            "Up Down PgUp PgDn Home End  choose   Enter Right Left  unfold, fold   a  all",
            "v  waits of one vCPU   p  pCPUs   s  sort by next column   r  reverse   /  filter",
            "Space  pause   + -  interval or speed   q  quit",
            "of a recording:  . ,  one forwards, back   > <  ten   [ ]  first, last",
            "",
        ]
        .map(Line::raw)
        .to_vec();
        for column in &COLUMNS {
            lines.push(Line::raw(format!("{:<7} {}", column.title, column.help)));
        }
        let unseen = self.interval.iter().flat_map(|interval| &interval.host.unseen);
        lines.extend(unseen.map(|what| Line::raw(format!("Not seen: {what}"))));
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
