// SPDX-License-Identifier: GPL-2.0-only
//! One place that makes foreign text harmless and short before it reaches a terminal, a log or a metric.
//!
//! Foreign is what others can choose: names of domains, processes and files, keys and values of what is
//! read, what was typed. Harmful in it is what steers a terminal or makes a reader see something else than
//! is there: controls (C0, DEL, C1), characters that turn the direction of writing, separators of lines and
//! paragraphs, whatever has no width or no shape.
//!
//! Whoever puts foreign text into a sentence writes [`told`]; the command's terminal lets nothing harmful
//! through even if that was forgotten ([`harmless_lines`], [`styled`]). What programs read keeps the true
//! text: [`json`] and [`escaped`] say it in other letters.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};

/// Characters of a name, key or path in a sentence.
pub const LONGEST: usize = 256;
/// Characters of one message for a person, whatever it quotes.
pub const LONGEST_MESSAGE: usize = 8000;

/// Stands for each harmful character, and for each byte that is no text.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Foreign text for a sentence: harmless, in one line, of at most [`LONGEST`] characters.
pub fn told(text: &(impl AsRef<OsStr> + ?Sized)) -> Told<'_> {
    Told(text.as_ref().to_string_lossy())
}

/// What [`told`] returns, to be formatted.
#[derive(Clone, Debug)]
pub struct Told<'a>(Cow<'a, str>);

impl Display for Told<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.pad(&harmless(&short(&self.0, LONGEST)))
    }
}

/// At most so many characters: of a longer text the beginning, `…` and the end, which often says what
/// is wrong.
#[must_use]
pub fn short(text: &str, most: usize) -> Cow<'_, str> {
    // No character is shorter than a byte.
    if text.len() <= most || text.chars().count() <= most {
        return text.into();
    }
    let end = most.saturating_sub(1) / 3;
    let begin = most.saturating_sub(1) - end;
    let begin = text.char_indices().nth(begin).map_or(text.len(), |(at, _)| at);
    let end = text.char_indices().rev().take(end).last().map_or(text.len(), |(at, _)| at);
    format!("{}…{}", &text[..begin], &text[end..]).into()
}

/// The same text, in which each harmful character is `U+FFFD`.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, is_harmful, |_, out| out.push(REPLACEMENT))
}

/// The same text in lines, in which each harmful character but the ends of lines is `U+FFFD`.
#[must_use]
pub fn harmless_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && is_harmful(c), |_, out| out.push(REPLACEMENT))
}

/// As [`harmless_lines`], but bold, faint, underlined and coloured letters, as this project writes them,
/// stay so.
#[must_use]
pub fn styled(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return harmless_lines(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        out.push_str(&harmless_lines(&rest[..at]));
        let length = style(&rest[at..]);
        match length {
            0 => out.push(REPLACEMENT),
            length => out.push_str(&rest[at..at + length]),
        }
        rest = &rest[at + length.max(1)..];
    }
    out.push_str(&harmless_lines(rest));
    out.into()
}

/// The length of the sequence that this begins with, if it changes nothing but how letters look, and
/// hides none.
fn style(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\x1b[") else { return 0 };
    let Some(end) = parameters.find(|c: char| !c.is_ascii_digit() && c != ';') else { return 0 };
    let parameters = &parameters[..end];
    let is_known = |parameter: &str| {
        let number = parameter.parse::<u8>();
        parameter.is_empty()
            || number.is_ok_and(|n| matches!(n, 0 | 1 | 2 | 4 | 22 | 24 | 30..=37 | 39 | 90..=97))
    };
    let is_known = match parameters.strip_prefix("38;5;") {
        Some(color) => color.parse::<u8>().is_ok(),
        None => parameters.split(';').all(is_known),
    };
    let length = "\x1b[".len() + end;
    if is_known && text[length..].starts_with('m') { length + 1 } else { 0 }
}

/// JSON that means the same and has nothing harmful in it: outside ASCII's letters it has characters only
/// in strings.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |c| c > '~' && is_harmful(c),
        |c, out| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        },
    )
}

/// The same text, with other words for some characters: formats have ways of their own to write them.
pub fn escaped(
    text: &str,
    unwanted: impl Fn(char) -> bool,
    write: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    let Some(first) = text.find(&unwanted) else { return text.into() };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        if unwanted(c) {
            write(c, &mut out);
        } else {
            out.push(c);
        }
    }
    out.into()
}

/// Whether a character steers what shows it, or cannot be seen.
#[must_use]
pub fn is_harmful(c: char) -> bool {
    match c {
        ' '..='~' => false,
        '\0'..='\u{9f}' | '\u{2028}' | '\u{2029}' => true,
        // They have a class of their own among letters and marks, but no shape: joiners, fillers, selectors
        // of variants.
        '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{ffa0}'
        | '\u{e0100}'..='\u{e01ef}' => true,
        c if c.is_whitespace() => false,
        c => !is_printable(c),
    }
}

/// By the table of the standard library, which shows it as it is behind a letter: formats, surrogates,
/// private and unassigned characters are not.
fn is_printable(c: char) -> bool {
    let mut bytes = [b'a'; 5];
    let length = c.encode_utf8(&mut bytes[1..]).len();
    std::str::from_utf8(&bytes[..=length]).is_ok_and(|pair| pair.escape_debug().nth(1) == Some(c))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// One of each kind.
    const HARMFUL: [char; 32] = [
        '\0',
        '\x07',
        '\x08',
        '\t',
        '\n',
        '\r',
        '\x1b',
        '\x7f',
        '\u{80}',
        '\u{85}',
        '\u{9b}',
        '\u{ad}',
        '\u{61c}',
        '\u{180e}',
        '\u{200b}',
        '\u{200d}',
        '\u{200e}',
        '\u{200f}',
        '\u{2028}',
        '\u{2029}',
        '\u{202a}',
        '\u{202e}',
        '\u{2060}',
        '\u{2066}',
        '\u{2069}',
        '\u{3164}',
        '\u{fe0f}',
        '\u{feff}',
        '\u{fff9}',
        '\u{e000}',
        '\u{e0001}',
        '\u{e0100}',
    ];

    #[test]
    fn what_steers_or_hides_is_told_and_what_is_seen_stays() {
        for c in HARMFUL {
            assert!(is_harmful(c), "{:?}", c);
            assert_eq!(told(&format!("a{c}b")).to_string(), "a\u{fffd}b");
        }
        for text in [
            "web-1 (2)",
            "größer",
            "e\u{301}",
            "数据库",
            "ベース\u{3000}1",
            "сервер",
            "🦀",
            "µs…–─█",
        ] {
            assert_eq!(told(text).to_string(), text);
            assert_eq!(json(text), text);
        }
        assert_eq!(
            told(OsStr::from_bytes(b"a\xff\x1b[31mb")).to_string(),
            "a\u{fffd}\u{fffd}[31mb"
        );
        assert_eq!(format!("{:>4}", told("a")), "   a");
    }

    #[test]
    fn what_is_long_is_told_by_its_ends() {
        for length in [0, 1, LONGEST, LONGEST + 1, 1 << 20] {
            let text = format!("{}!", "ä".repeat(length));
            let shown = told(&text).to_string();
            assert!(shown.chars().count() <= LONGEST && shown.ends_with('!'), "{shown}");
            assert_eq!(shown == text, length < LONGEST);
        }
        assert_eq!(short("abcdef", 0), "…");
        assert_eq!(short("abcdef", 4), "ab…f");
    }

    #[test]
    fn only_our_own_styles_pass() {
        let own = "\x1b[1mbold\x1b[0m \x1b[38;5;2mgreen\x1b[39m\n\x1b[1m\x1b[31merror:\x1b[m";
        assert_eq!(styled(own), own);
        for foreign in [
            "\x1b[2J",
            "\x1b]0;title\x07",
            "\x1b[8mhidden",
            "\x1b[38;5;300m",
            "\x1b[1",
            "\x1b",
            "\x1bc",
        ] {
            let shown = styled(foreign).into_owned();
            assert!(!shown.contains(|c: char| c.is_control()), "{shown:?}");
        }
    }

    #[test]
    fn json_says_the_same() {
        let text: String = HARMFUL.iter().collect();
        // As serde_json writes it.
        let quoted = text.chars().map(|c| match c {
            '\0'..' ' => format!("\\u{:04x}", c as u32),
            c => c.to_string(),
        });
        let quoted = format!("\"{}\"", quoted.collect::<String>());
        let harmless = json(&quoted).into_owned();
        assert!(!harmless.contains(is_harmful), "{harmless}");
        assert_eq!(serde_json::from_str::<String>(&harmless).unwrap(), text);
    }
}
