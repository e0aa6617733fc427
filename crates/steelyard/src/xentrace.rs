// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard convert` of a file that `xentrace` wrote, into a recording.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::num::NonZeroU64;
use std::path::Path;

use steelyard_recording::{
    Ending, Recorder, XentraceError, XentraceFile, XentraceSurvey, is_xentrace,
};
use steelyard_scenario::Diagnostic;

use crate::failure::Failure;
use crate::import::write_whole;
use crate::interrupt::Interrupt;
use crate::terminal;

/// From one sample to the next; runs and waits are kept as they are.
const INTERVAL_NS: u64 = 100_000_000;

/// Whether it is such a file; not if it cannot be read.
pub fn is_trace(file: &Path) -> bool {
    let mut beginning = [0; 4];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut beginning));
    read.is_ok() && is_xentrace(&beginning)
}

pub fn convert(
    file: &Path,
    tsc_hz: Option<NonZeroU64>,
    output: &Path,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let name = file.display().to_string();
    let refused = |error: &dyn ToString| Diagnostic::of_file(&name, error.to_string());
    let open = || File::open(file).map_err(XentraceError::Unreadable);
    let survey = open().and_then(XentraceSurvey::new).map_err(|error| refused(&error))?;
    let Some(tsc_hz) = tsc_hz.or(survey.tsc_hz) else {
        let message = "it does not tell the frequency of the time stamp counter";
        let help = "say it with `--tsc-hz HZ` (`xl dmesg` has it in MHz: `Detected ... processor`), or \
                    record with `xentrace -e 0x29000`";
        return Err(Diagnostic::of_file(&name, message).with_help(help).into());
    };
    match survey.ending {
        Ending::Complete => {}
        Ending::CutOff => terminal::note(&format!("{name}: it was cut off")),
        Ending::Damaged => terminal::note(&format!("{name}: what follows is damaged")),
    }
    if survey.lost > 0 {
        let lost = survey.lost;
        terminal::note(&format!("{name}: Xen had no room for {lost} records, which are missing"));
    }
    let source = open().map_err(|error| refused(&error))?;
    let mut source = XentraceFile::new(source, &survey, tsc_hz, &name, INTERVAL_NS);
    write_whole(output, interrupt, |writer| {
        let mut recorder = Recorder::new(BufWriter::new(writer));
        while let Some(snapshot) = source.snapshot().map_err(io::Error::other)? {
            recorder.record(&snapshot)?;
        }
        recorder.finish()?.flush()
    })
}
