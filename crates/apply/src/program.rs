// SPDX-License-Identifier: GPL-2.0-only
//! Programs that are run for an answer: `virsh`, `xl`. They may hang, and may say anything.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use steelyard_boundary::input::TEXT_BYTES;
use steelyard_boundary::text::short;

use crate::knob::KnobError;

/// Then it is given up: neither takes a second where all is well.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Characters of what a program says of its failure.
const REASON: usize = 500;

/// What a program prints, if it says that all went well.
///
/// # Errors
/// [`KnobError::Program`].
pub fn run(program: &'static str, arguments: &[&str], input: &str) -> Result<String, KnobError> {
    let missing = |missing: bool, reason: String| {
        let command = line(program, arguments);
        KnobError::Program { missing, command, reason }
    };
    let failed = |reason: String| missing(false, reason);
    let mut child = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        // Ctrl-C is for this process, which takes back what it did.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| missing(error.kind() == ErrorKind::NotFound, error.to_string()))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let input = input.to_owned();
    // Who does not read it all says so by its exit code. Detached: a grandchild may keep them open for ever.
    thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
    let (out, error) = (all(stdout), all(stderr));
    let began = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| failed(error.to_string()))? {
            Some(status) => break status,
            None if began.elapsed() > PATIENCE => {
                // It ends, or has ended.
                let _ = child.kill().and_then(|()| child.wait());
                return Err(failed(format!("no answer within {} s", PATIENCE.as_secs())));
            }
            None => thread::sleep(LOOK_EVERY),
        }
    };
    let text = |from: std::sync::mpsc::Receiver<Vec<u8>>| {
        let left = PATIENCE.saturating_sub(began.elapsed()).max(LOOK_EVERY);
        String::from_utf8_lossy(&from.recv_timeout(left).unwrap_or_default()).into_owned()
    };
    let (out, error) = (text(out), text(error));
    if status.success() {
        return Ok(out);
    }
    let said = error.lines().chain(out.lines()).map(str::trim).filter(|line| !line.is_empty());
    let said = said.collect::<Vec<_>>().join("; ");
    Err(failed(if said.is_empty() {
        status.to_string()
    } else {
        short(&said, REASON).into_owned()
    }))
}

fn all(from: Option<impl Read + Send + 'static>) -> std::sync::mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let mut bytes = vec![];
        let _ = from.map(|from| from.take(TEXT_BYTES).read_to_end(&mut bytes));
        sender.send(bytes)
    });
    receiver
}

/// A command as a person would type it.
pub fn line(program: &str, arguments: &[&str]) -> String {
    let words = [program].into_iter().chain(arguments.iter().copied());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

/// A word for a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=,:@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_to_a_shell_what_they_are() {
        let words = ["web", "a b", "it's", r"machine-qemu\x2d1", "$HOME", "", "ä;b"];
        let printed = run("sh", &["-c", &line("printf", &[&["%s\n"], &words[..]].concat())], "");
        assert_eq!(printed.unwrap().lines().collect::<Vec<_>>(), words);
    }

    #[test]
    fn what_fails_says_so() {
        let refused = |script| run("sh", &["-c", script], "").unwrap_err().to_string();
        assert!(refused("echo no such domain >&2; exit 1").ends_with("no such domain"));
        assert!(refused("exit 3").contains("exit status: 3"));
        let missing = run("steelyard-no-such-program", &["a"], "").unwrap_err().to_string();
        assert!(missing.contains("steelyard-no-such-program"), "{missing}");
        assert_eq!(run("cat", &[], "text").unwrap(), "text");
    }
}
