// SPDX-License-Identifier: GPL-2.0-only
//! The number of a thing is its place in its table. Each kind of thing has numbers of a type of its own, which C takes
//! for a `u32`: who takes one for another's does not get past the compiler.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct Number<Of>(pub u32, PhantomData<Of>);

pub(crate) type PcpuNumber = Number<OfPcpu>;
pub(crate) type VcpuNumber = Number<OfVcpu>;
pub(crate) type QueueNumber = Number<OfQueue>;
pub(crate) type DomainNumber = Number<OfDomain>;
pub(crate) type ThreadNumber = Number<OfThread>;
pub(crate) type TaskNumber = Number<OfTask>;
pub(crate) type OtherNumber = Number<OfOther>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OfPcpu;
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OfVcpu;
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OfQueue;
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OfDomain;
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OfThread;
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OfTask;
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OfOther;

impl<Of> Number<Of> {
    /// Of nothing: `SY_NONE`.
    pub const NONE: Self = Number::new(u32::MAX);

    #[inline(always)]
    pub const fn new(number: u32) -> Self {
        Number(number, PhantomData)
    }

    /// From the first of these on, before the second.
    #[inline(always)]
    pub fn range(
        range: Range<Self>,
    ) -> impl ExactSizeIterator<Item = Self> + DoubleEndedIterator + Clone {
        (range.start.0..range.end.0).map(Number::new)
    }
}

/// Things by their numbers.
pub(crate) struct Table<Of, T> {
    things: Vec<T>,
    of: PhantomData<Of>,
}

impl<Of, T> Table<Of, T> {
    /// So many find room where it is.
    pub fn with_capacity(capacity: usize) -> Self {
        Table { things: Vec::with_capacity(capacity), of: PhantomData }
    }

    /// The number of the next one.
    pub fn next(&self) -> Number<Of> {
        Number::new(self.things.len() as u32)
    }

    pub fn push(&mut self, thing: T) {
        self.things.push(thing);
    }

    pub fn len(&self) -> usize {
        self.things.len()
    }

    pub fn numbers(&self) -> impl ExactSizeIterator<Item = Number<Of>> + use<Of, T> {
        Number::range(Number::new(0)..self.next())
    }

    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.things.iter()
    }

    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.things.as_mut_ptr()
    }
}

impl<Of, T> Default for Table<Of, T> {
    fn default() -> Self {
        Table::with_capacity(0)
    }
}

impl<Of, T> FromIterator<T> for Table<Of, T> {
    fn from_iter<I: IntoIterator<Item = T>>(things: I) -> Self {
        Table { things: Vec::from_iter(things), of: PhantomData }
    }
}

impl<Of, T> Extend<T> for Table<Of, T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, things: I) {
        self.things.extend(things);
    }
}

impl<Of, T> Index<Number<Of>> for Table<Of, T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, number: Number<Of>) -> &T {
        &self.things[number.0 as usize]
    }
}

impl<Of, T> IndexMut<Number<Of>> for Table<Of, T> {
    #[inline(always)]
    fn index_mut(&mut self, number: Number<Of>) -> &mut T {
        &mut self.things[number.0 as usize]
    }
}
