// SPDX-License-Identifier: GPL-2.0-only
//! What `steelyard top` keeps and how it answers keys and the mouse; knows no terminal and no clock.
//! `views.rs` draws it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ptr;
use std::sync::Arc;

use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use crate::columns::{COLUMNS, Column, Row, Unit};
use crate::interval::{DomainInterval, Interval, Past, Timeline, VcpuInterval};
use crate::settings::Settings;
use crate::table::to_csv;

/// How many intervals the pCPUs' history goes back, at most.
pub(crate) const HISTORY: usize = 200;
/// Single runs and waits that are kept, at most.
pub(crate) const SEGMENTS: usize = 50_000;
/// Intervals in which it is seen that a domain began or ended.
const MARKED: u32 = 4;

/// Lines above the first row of the table; its titles are the last of them.
const ABOVE_ROWS: u16 = 3;

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
    /// Time goes the other way.
    Turn,
    /// To give the terminal back until it is asked for again.
    Suspend,
    /// Twice as often; of a recording, twice as fast.
    Faster,
    /// Half as often; of a recording, half as fast.
    Slower,
    /// To write what is shown into a file.
    Write,
    /// To keep the columns that were chosen.
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Domains,
    Pcpus,
    Vcpu,
    Columns,
    Help,
}

/// A domain by its id, or a vCPU of it.
type Place = (u64, Option<u64>);

/// The state of the screen.
pub struct Screen {
    pub(crate) looks: Looks,
    pub(crate) view: View,
    pub(crate) interval: Option<Interval>,
    /// How busy each pCPU was, the newest last.
    pub(crate) busy: VecDeque<Vec<f64>>,
    /// Single runs and waits, the newest last.
    pub(crate) timelines: VecDeque<Arc<Timeline>>,
    /// Domains that began or ended a moment ago, and in how many intervals more this is shown.
    pub(crate) marked: HashMap<u64, u32>,
    /// A number for each domain, by which it has its letter and colour.
    pub(crate) numbers: HashMap<u64, usize>,
    /// The chosen row.
    pub(crate) place: Option<Place>,
    /// Row at the top, so that the chosen one is seen.
    pub(crate) top: usize,
    /// Line at the top, of views that are text.
    pub(crate) scrolled: usize,
    pub(crate) unfolded: HashSet<u64>,
    /// None: as the source has them.
    pub(crate) sort: Option<&'static Column>,
    pub(crate) reversed: bool,
    /// The columns that are shown, and where each ends.
    pub(crate) shown: Vec<(usize, &'static Column)>,
    pub(crate) unit: Unit,
    pub(crate) settings: Settings,
    /// The line of the columns to choose from.
    pub(crate) column: usize,
    /// Who is no virtual machine is shown too.
    pub(crate) all: bool,
    pub(crate) filter: String,
    pub(crate) typing: bool,
    pub(crate) paused: bool,
    /// Where in a recording, how fast.
    pub(crate) status: String,
    /// What became of a wish.
    pub(crate) remark: Option<String>,
}

impl Screen {
    /// With nothing to show yet; `all` is who is no virtual machine, too.
    pub fn new(looks: Looks, settings: Settings, all: bool) -> Screen {
        Screen {
            looks,
            view: View::Domains,
            interval: None,
            busy: VecDeque::new(),
            timelines: VecDeque::new(),
            marked: HashMap::new(),
            numbers: HashMap::new(),
            place: None,
            top: 0,
            scrolled: 0,
            unfolded: HashSet::new(),
            sort: None,
            reversed: false,
            shown: vec![],
            unit: Unit::default(),
            settings,
            column: 0,
            all,
            filter: String::new(),
            typing: false,
            paused: false,
            status: String::new(),
            remark: None,
        }
    }

    /// From now on it shows this interval.
    pub fn show(&mut self, mut interval: Interval) {
        let last = self.interval.take();
        let follows = last.as_ref().is_some_and(|last| last.time_ns == interval.start_ns());
        let precedes = last.as_ref().is_some_and(|last| last.start_ns() == interval.time_ns);
        if precedes {
            self.busy.pop_back();
            self.timelines.pop_back();
        } else if !follows {
            self.busy.clear();
            self.timelines.clear();
        }
        if !precedes || self.busy.is_empty() {
            self.busy.push_back(interval.pcpus_busy_percent.clone());
            self.timelines.push_back(interval.timeline.clone());
        }
        if self.busy.len() > HISTORY {
            self.busy.pop_front();
        }
        let kept = |timelines: &VecDeque<Arc<Timeline>>| -> usize {
            timelines.iter().map(|timeline| timeline.len()).sum()
        };
        while self.timelines.len() > HISTORY
            || self.timelines.len() > 1 && kept(&self.timelines) > SEGMENTS
        {
            self.timelines.pop_front();
        }
        self.mark(last.filter(|_| follows), &mut interval);
        self.interval = Some(interval);
    }

    /// What was before the interval that is shown, the newest first, after a jump.
    pub fn recall(&mut self, before: Vec<Past>) {
        for past in before {
            self.busy.push_front(past.pcpus_busy_percent);
            self.timelines.push_front(past.timeline);
        }
    }

    /// Who began or ended is seen for a while.
    fn mark(&mut self, last: Option<Interval>, interval: &mut Interval) {
        let Some(last) = last else {
            self.marked.clear();
            return self.number(interval);
        };
        self.marked.retain(|_, left| {
            *left -= 1;
            *left > 0
        });
        for domain in interval.domains.iter().filter(|domain| domain.began || domain.ended) {
            self.marked.insert(domain.id, MARKED);
        }
        let there: HashSet<u64> = interval.domains.iter().map(|domain| domain.id).collect();
        let fades = |domain: &DomainInterval| {
            domain.ended && self.marked.contains_key(&domain.id) && !there.contains(&domain.id)
        };
        interval.domains.extend(last.domains.into_iter().filter(fades));
        self.number(interval);
    }

    /// A domain keeps its number as long as it is there.
    fn number(&mut self, interval: &Interval) {
        let there: HashSet<u64> = interval.domains.iter().map(|domain| domain.id).collect();
        self.numbers.retain(|id, _| there.contains(id));
        let taken: HashSet<usize> = self.numbers.values().copied().collect();
        let mut free = (0..).filter(|number| !taken.contains(number));
        for domain in &interval.domains {
            if !self.numbers.contains_key(&domain.id) {
                self.numbers.extend(free.next().map(|number| (domain.id, number)));
            }
        }
    }

    /// Says how it goes on.
    pub fn set_status(&mut self, paused: bool, status: String) {
        self.paused = paused;
        self.status = status;
    }

    /// Whether it shows what single vCPUs do, and where.
    pub fn shows_states(&self) -> bool {
        matches!(self.view, View::Pcpus | View::Vcpu) || !self.unfolded.is_empty()
    }

    /// Answers a key.
    pub fn key(&mut self, key: KeyEvent) -> Action {
        self.remark = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Action::Quit,
                KeyCode::Char('z') => Action::Suspend,
                _ => Action::Draw,
            };
        }
        if self.typing {
            self.type_filter(key.code);
            return Action::Draw;
        }
        if self.view == View::Columns
            && let Some(action) = self.columns_key(key.code)
        {
            return action;
        }
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('+' | '=') => return Action::Faster,
            KeyCode::Char('-') => return Action::Slower,
            KeyCode::Char('.') => return Action::Step(1),
            KeyCode::Char(',') => return Action::Step(-1),
            KeyCode::Char('>') => return Action::Step(10),
            KeyCode::Char('<') => return Action::Step(-10),
            KeyCode::Char('[') => return Action::Step(isize::MIN),
            KeyCode::Char(']') => return Action::Step(isize::MAX),
            KeyCode::Char('b') => return Action::Turn,
            KeyCode::Char('?' | 'h') => self.toggle(View::Help),
            KeyCode::Char('p') => self.toggle(View::Pcpus),
            KeyCode::Char('v') => self.toggle(View::Vcpu),
            KeyCode::Esc if self.view == View::Domains => self.filter.clear(),
            KeyCode::Char(' ') => return Action::Pause,
            KeyCode::Char('w') => return Action::Write,
            KeyCode::Char('c') => self.toggle(View::Columns),
            KeyCode::Char('o') => self.all = !self.all,
            KeyCode::Esc => self.toggle(self.view),
            KeyCode::Char('/') => {
                self.scrolled = 0;
                self.view = View::Domains;
                self.typing = true;
            }
            KeyCode::Char('s') => self.sort = self.beside(true),
            KeyCode::Char('S') => self.sort = self.beside(false),
            KeyCode::Char('u') => self.unit = self.unit.next(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('a') => {
                let domains = self.interval.iter().flat_map(|interval| &interval.domains);
                self.unfolded = match self.unfolded.is_empty() {
                    true => domains.map(|domain| domain.id).collect(),
                    false => HashSet::new(),
                };
            }
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::PageDown => self.page(10),
            KeyCode::PageUp => self.page(-10),
            KeyCode::Home => self.page(isize::MIN),
            KeyCode::End => self.page(isize::MAX),
            KeyCode::Enter | KeyCode::Right | KeyCode::Left if self.view == View::Domains => {
                self.fold(key.code);
            }
            _ => {}
        }
        Action::Draw
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }

    /// What a key means where columns are chosen, if it is another than elsewhere.
    fn columns_key(&mut self, key: KeyCode) -> Option<Action> {
        match key {
            KeyCode::Esc | KeyCode::Char('c') => {
                self.toggle(View::Columns);
                return Some(Action::Keep);
            }
            KeyCode::Char(' ') | KeyCode::Enter => self.turn_column(),
            KeyCode::Char('d') => self.settings.choose(None),
            _ => return None,
        }
        Some(Action::Draw)
    }

    /// Answers the mouse: a click chooses a row, a click on the chosen one unfolds it, a click on a
    /// title sorts.
    pub fn mouse(&mut self, mouse: MouseEvent) {
        match mouse.kind {
            MouseEventKind::ScrollDown => self.page(3),
            MouseEventKind::ScrollUp => self.page(-3),
            MouseEventKind::Down(MouseButton::Left) if self.view == View::Domains => {
                if mouse.row + 1 == ABOVE_ROWS {
                    return self.sort_at(mouse.column.into());
                }
                let row = mouse.row.checked_sub(ABOVE_ROWS).map(|row| usize::from(row) + self.top);
                match row.and_then(|row| self.places().get(row).copied()) {
                    Some(place) if self.place == Some(place) => self.fold(KeyCode::Enter),
                    Some(place) => self.place = Some(place),
                    None => {}
                }
            }
            _ => {}
        }
    }

    /// By the column that was clicked on; the other way round if it was that before; over names, as
    /// they come.
    fn sort_at(&mut self, x: usize) {
        let clicked =
            self.shown.iter().find(|(end, column)| (end - column.width..=*end).contains(&x));
        match (clicked, self.sort) {
            (Some((_, column)), Some(sort)) if ptr::eq(*column, sort) => {
                self.reversed = !self.reversed;
            }
            (clicked, _) => {
                self.sort = clicked.map(|(_, column)| *column);
                self.reversed = false;
            }
        }
    }

    /// The column that is shown after that by which domains are sorted, or before it.
    fn beside(&self, after: bool) -> Option<&'static Column> {
        let mut columns: Vec<_> = self.shown.iter().map(|(_, column)| *column).collect();
        if !after {
            columns.reverse();
        }
        match self.sort {
            None => columns.first().copied(),
            Some(sort) => columns.into_iter().skip_while(|column| !ptr::eq(*column, sort)).nth(1),
        }
    }

    fn toggle(&mut self, view: View) {
        self.scrolled = 0;
        self.view = if self.view == view { View::Domains } else { view };
    }

    /// To another row; in views that have none, another line.
    fn go(&mut self, rows: isize) {
        match self.view {
            View::Domains | View::Vcpu => self.choose(rows),
            View::Columns => {
                let last = COLUMNS.len() - 1;
                self.column = self.column.saturating_add_signed(rows).min(last);
            }
            View::Pcpus | View::Help => self.scrolled = self.scrolled.saturating_add_signed(rows),
        }
    }

    /// Several rows or lines.
    fn page(&mut self, rows: isize) {
        match self.view {
            View::Domains => self.choose(rows),
            View::Columns => self.go(rows),
            _ => self.scrolled = self.scrolled.saturating_add_signed(rows),
        }
    }

    /// Shows the column of the line, or does not; the order is that of the list.
    fn turn_column(&mut self) {
        let shown = self.settings.columns();
        let now: Vec<&'static Column> =
            shown.unwrap_or_else(|| self.shown.iter().map(|(_, column)| *column).collect());
        let turned = &COLUMNS[self.column.min(COLUMNS.len() - 1)];
        let has = |columns: &[&Column], one: &Column| columns.iter().any(|it| ptr::eq(*it, one));
        let wanted: Vec<&'static Column> =
            COLUMNS.iter().filter(|&column| has(&now, column) != ptr::eq(column, turned)).collect();
        self.settings.choose(Some(&wanted));
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
            self.toggle(View::Vcpu);
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

    pub(crate) fn chosen(&self, places: &[Place]) -> Option<usize> {
        places.iter().position(|place| Some(*place) == self.place)
    }

    /// The domains that are shown, in order.
    pub(crate) fn domains(&self) -> Vec<&DomainInterval> {
        let filter = self.filter.to_lowercase();
        let domains = self.interval.iter().flat_map(|interval| &interval.domains);
        let mut domains: Vec<_> = domains
            .filter(|domain| self.all || domain.virtual_machine)
            .filter(|domain| domain.name.to_lowercase().contains(&filter))
            .collect();
        if let Some(Column { order, .. }) = self.sort {
            domains.sort_by(|a, b| order(b).total_cmp(&order(a)));
        }
        if self.reversed {
            domains.reverse();
        }
        domains
    }

    pub(crate) fn rows(&self) -> Vec<Row<'_>> {
        let Some(interval) = &self.interval else { return vec![] };
        let rows = self.domains().into_iter().flat_map(|domain| {
            let unfolded = self.unfolded.contains(&domain.id);
            let row = Row { unit: self.unit, ..Row::of(interval, domain) };
            let vcpus = domain.vcpus.iter().filter(move |_| unfolded);
            [row].into_iter().chain(vcpus.map(move |vcpu| row.vcpu(vcpu)))
        });
        rows.collect()
    }

    /// The rows and columns that are shown, as CSV.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let columns: Vec<&Column> = self.shown.iter().map(|(_, column)| *column).collect();
        to_csv(&self.rows(), &columns, true)
    }

    /// What is to be kept.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A remark that stands until something else happens.
    pub fn say(&mut self, remark: String) {
        self.remark = Some(remark);
    }

    pub(crate) fn places(&self) -> Vec<Place> {
        let place = |row: &Row| (row.domain.id, row.vcpu.map(|vcpu| vcpu.id));
        self.rows().iter().map(place).collect()
    }

    /// The chosen vCPU, the first of the chosen domain.
    pub(crate) fn chosen_vcpu(&self) -> Option<(&DomainInterval, usize, &VcpuInterval)> {
        let (domain, vcpu) = self.place.or_else(|| self.places().first().copied())?;
        let domains = &self.interval.as_ref()?.domains;
        let domain = domains.iter().find(|known| known.id == domain)?;
        let chosen = |known: &VcpuInterval| vcpu.is_none_or(|vcpu| vcpu == known.id);
        let (index, vcpu) = domain.vcpus.iter().enumerate().find(|(_, known)| chosen(known))?;
        Some((domain, index, vcpu))
    }
}
