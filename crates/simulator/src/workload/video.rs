// SPDX-License-Identifier: GPL-2.0-only
//! Playback of a video: one thread decodes and shows the picture, a second one, if there is one,
//! plays the sound.
//!
//! - *Picture*: a frame is due every 1 / `frames_per_s`. Until then the player decodes ahead, up to
//!   `buffer_frames`; when a frame is due it converts and hands it over, which takes `show`. A frame
//!   is shown if that is done before the next one is due, otherwise dropped. Decoding time differs by
//!   the kind of frame, in groups of twelve: I BBP BBP BBP BB in the order of display, taken as that
//!   of decoding too. A player that is late leaves out B frames, on which no other frame depends, and
//!   a group whose time is over.
//! - *File*: with `file_mbit_per_s` it comes from the disk, piece by piece, each before the first frame of it is
//!   decoded: the player waits for that, as one does that reads no further ahead than it decodes.
//! - *Sound*: every `audio_period` the device asks for as much sound again. There are
//!   `audio_buffer_periods` of it in the device, after which a period that has not come is missed:
//!   the sound breaks off.
//!
//! The defaults are an estimate for 8 Mbit/s at 1280x720 and 30 frames per second: 3600 macroblocks
//! of some 7,500 cycles make 10 ms a frame at 2.66 GHz. To be calibrated, on the CPU time that the
//! player uses alone: the three decoding times. The buffers are a player's own choice.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Event, Guest, Outside, Step, TaskValue, Times, value};
use crate::limits;
use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Video {
    /// Frames per second.
    #[schemars(range(min = limits::FRAMES_PER_S.least, max = limits::FRAMES_PER_S.most))]
    pub frames_per_s: u32,
    /// CPU time to decode an I frame.
    pub i_frame: Nanoseconds,
    /// CPU time to decode a P frame.
    pub p_frame: Nanoseconds,
    /// CPU time to decode a B frame.
    pub b_frame: Nanoseconds,
    /// Decoding times vary uniformly by up to so many percent.
    #[schemars(range(min = limits::JITTER_PERCENT.least, max = limits::JITTER_PERCENT.most))]
    pub jitter_percent: u32,
    /// CPU time to convert and show a decoded frame.
    pub show: Nanoseconds,
    /// Frames decoded ahead at most.
    #[schemars(range(min = limits::BUFFERED.least, max = limits::BUFFERED.most))]
    pub buffer_frames: u32,
    /// Rate of the file that it reads from the disk; 0: it is in memory.
    #[schemars(range(min = limits::FILE_MBIT_PER_S.least, max = limits::FILE_MBIT_PER_S.most))]
    pub file_mbit_per_s: u32,
    /// Bytes of a piece of the file.
    #[schemars(range(min = limits::SOME_BYTES.least, max = limits::SOME_BYTES.most))]
    pub read_bytes: u64,
    /// Length of a period of sound.
    pub audio_period: Nanoseconds,
    /// CPU time for a period of sound.
    pub audio: Nanoseconds,
    /// Periods of sound in the device at most.
    #[schemars(range(min = limits::BUFFERED.least, max = limits::BUFFERED.most))]
    pub audio_buffer_periods: u32,
}

impl Default for Video {
    fn default() -> Self {
        Video {
            frames_per_s: 30,
            i_frame: Nanoseconds::from_ms(16),
            p_frame: Nanoseconds::from_ms(11),
            b_frame: Nanoseconds::from_ms(9),
            jitter_percent: 20,
            show: Nanoseconds::from_ms(1),
            buffer_frames: 4,
            file_mbit_per_s: 0,
            read_bytes: 64 << 10,
            audio_period: Nanoseconds::from_ms(10),
            audio: Nanoseconds::from_us(200),
            audio_buffer_periods: 3,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    I,
    P,
    B,
}

/// Frames of a group.
const GROUP: u64 = 12;

fn kind(frame: u64) -> Kind {
    match frame % GROUP {
        0 => Kind::I,
        place if place % 3 == 0 => Kind::P,
        _ => Kind::B,
    }
}

/// Items that must be done by deadlines at equal distances: item n by (n + `lag`) periods.
struct Track {
    period_ns: u64,
    lag: u64,
    /// The next item that is neither done nor missed.
    next: u64,
    in_time: u64,
}

impl Track {
    fn new(period_ns: u64, lag: u64) -> Self {
        Track { period_ns: period_ns.max(1), lag, next: 0, in_time: 0 }
    }

    /// The first item whose deadline is not over.
    fn open(&self, elapsed_ns: u64) -> u64 {
        self.next.max((elapsed_ns / self.period_ns + 1).saturating_sub(self.lag))
    }

    /// The time of so many periods after the next item's number.
    fn time_ns(&self, periods: u64) -> u64 {
        (self.next + periods).saturating_mul(self.period_ns)
    }

    /// The next item is done.
    fn finish(&mut self, elapsed_ns: u64) {
        self.in_time += u64::from(elapsed_ns <= self.time_ns(self.lag));
        self.next += 1;
    }
}

#[derive(Clone, Copy)]
enum Doing {
    Nothing,
    Reading,
    Decoding,
    Showing,
}

pub(super) struct Program {
    config: Video,
    has_audio: bool,
    /// When the playback starts.
    start_ns: Option<u64>,
    frames: Track,
    doing: Doing,
    /// Frames before this one are decoded or left out.
    decoded: u64,
    /// How much of the file was read.
    read_bytes: u64,
    /// From when a frame was due to when it had been shown.
    delays: Times,
    audio: Track,
    playing: bool,
}

impl Program {
    pub fn new(config: &Video, threads: u32) -> Self {
        // The first frame has one period to be decoded, and each one to be shown.
        let frames = Track::new(1_000_000_000 / u64::from(config.frames_per_s.max(1)), 2);
        let audio = Track::new(config.audio_period.0, config.audio_buffer_periods.into());
        Program {
            config: config.clone(),
            has_audio: threads > 1,
            start_ns: None,
            frames,
            doing: Doing::Nothing,
            decoded: 0,
            read_bytes: 0,
            delays: Times::new(),
            audio,
            playing: false,
        }
    }

    fn picture(&mut self, elapsed_ns: u64, guest: &mut Guest<'_>) -> Step {
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Nothing | Doing::Reading => {}
            Doing::Decoding => self.decoded += 1,
            Doing::Showing => {
                self.delays.record(elapsed_ns - self.frames.time_ns(1));
                self.frames.finish(elapsed_ns);
            }
        }
        self.frames.next = self.frames.open(elapsed_ns);
        let next = self.frames.next;
        let due_ns = self.frames.time_ns(1);
        if due_ns <= elapsed_ns && next < self.decoded {
            self.doing = Doing::Showing;
            return Step::Compute(self.config.show.0);
        }
        if self.decoded / GROUP < next / GROUP {
            self.decoded = next / GROUP * GROUP;
        }
        while self.decoded < next && kind(self.decoded) == Kind::B {
            self.decoded += 1;
        }
        if self.decoded < next + u64::from(self.config.buffer_frames.max(1)) {
            if self.read_bytes < self.bytes_of(self.decoded + 1) {
                self.doing = Doing::Reading;
                self.read_bytes += self.config.read_bytes;
                return Step::Disk(self.config.read_bytes);
            }
            self.doing = Doing::Decoding;
            let time = match kind(self.decoded) {
                Kind::I => self.config.i_frame,
                Kind::P => self.config.p_frame,
                Kind::B => self.config.b_frame,
            };
            return Step::Compute(guest.random.jitter(time.0, self.config.jitter_percent));
        }
        Step::Sleep(due_ns - elapsed_ns)
    }

    /// Of the file, so many frames.
    fn bytes_of(&self, frames: u64) -> u64 {
        let bytes_per_s = u64::from(self.config.file_mbit_per_s) * 1_000_000 / 8;
        let bytes = u128::from(frames) * u128::from(bytes_per_s);
        u64::try_from(bytes / u128::from(self.config.frames_per_s.max(1))).unwrap_or(u64::MAX)
    }

    fn sound(&mut self, elapsed_ns: u64) -> Step {
        if std::mem::replace(&mut self.playing, false) {
            self.audio.finish(elapsed_ns);
        }
        self.audio.next = self.audio.open(elapsed_ns);
        let asked_ns = self.audio.time_ns(0);
        if asked_ns > elapsed_ns {
            return Step::Sleep(asked_ns - elapsed_ns);
        }
        self.playing = true;
        Step::Compute(self.config.audio.0)
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let elapsed_ns = guest.now_ns - *self.start_ns.get_or_insert(guest.ready_ns);
        match thread {
            0 => self.picture(elapsed_ns, guest),
            _ => self.sound(elapsed_ns),
        }
    }

    fn outside(&mut self, event: Event, outside: &mut Outside<'_>) {
        if let Event::Start = event {
            self.start_ns.get_or_insert(outside.now_ns);
        }
    }

    fn values(&self, now_ns: u64) -> Vec<TaskValue> {
        let elapsed_ns = self.start_ns.map_or(0, |start_ns| now_ns - start_ns);
        let count = |name: &str, unit: &str, more_is_better, count: u64| {
            value(name, unit, Some(more_is_better), Some(count as f64))
        };
        let missed = |track: &Track| track.open(elapsed_ns) - track.in_time;
        let mut values = vec![
            count("frames shown", "frames", true, self.frames.in_time),
            count("frames dropped", "frames", false, missed(&self.frames)),
        ];
        values.extend(self.delays.values("frame delay"));
        if self.has_audio {
            values.push(count("audio played", "periods", true, self.audio.in_time));
            values.push(count("audio missed", "periods", false, missed(&self.audio)));
        }
        values
    }
}
