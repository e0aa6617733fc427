// SPDX-License-Identifier: GPL-2.0-only
//! What is told to others: text of others, and answers to requests over HTTP.

use std::convert::Infallible;
use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use serde_json::Value;
use steelyard_boundary::text::{LONGEST, harmless, harmless_lines, is_harmful, json, styled, told};
use steelyard_monitor::{Exchange, Request};

use crate::values::{Number, Word, chance};

/// Any text becomes harmless, and stays as it is when that is done again.
pub fn text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let sentence = told(&*text).to_string();
    assert!(!sentence.chars().any(is_harmful), "{sentence:?}");
    assert!(sentence.chars().count() <= LONGEST, "{sentence:?}");
    let line = harmless(&text);
    assert!(!line.chars().any(is_harmful), "{line:?}");
    assert_eq!(line.chars().count(), text.chars().count());
    let lines = harmless_lines(&text);
    assert!(!lines.chars().any(|c| c != '\n' && is_harmful(c)), "{lines:?}");
    let colored = styled(&text);
    assert!(!colored.chars().any(|c| !matches!(c, '\n' | '\x1b') && is_harmful(c)), "{colored:?}");
    assert_eq!(styled(&colored), colored);
    if let Ok(value) = serde_json::from_str::<Value>(&text) {
        let written = json(&text);
        assert!(!written.chars().any(|c| c > '~' && is_harmful(c)), "{written:?}");
        assert_eq!(serde_json::from_str::<Value>(&written).ok(), Some(value));
    }
}

/// What is sent on a connection is understood the same however it is cut, and answered once.
pub fn server(bytes: &[u8]) {
    let _ = exchange(&mut Unstructured::new(bytes));
}

fn exchange(bytes: &mut Unstructured<'_>) -> Result<()> {
    let on_loopback = bytes.arbitrary()?;
    let piece = bytes.int_in_range(1..=64)?;
    let at_a_time = bytes.int_in_range(1..=64)?;
    let sent = request(bytes)?;
    let mut exchange = Exchange::new(on_loopback);
    let asked = exchange.receive(&sent).or_else(|| exchange.receive(b""));
    let mut in_pieces = Exchange::new(on_loopback);
    let mut pieces = sent.chunks(piece).chain([&b""[..]]);
    assert_eq!(pieces.find_map(|piece| in_pieces.receive(piece)), asked);
    let asked = asked.expect("it was all");

    assert_eq!(in_pieces.owed(), None);
    let metrics = || Ok::<_, Infallible>(Arc::new("# EOF\n".to_owned()));
    in_pieces.answer(asked, metrics).expect("it cannot fail");
    assert_eq!(in_pieces.receive(&sent), None);
    let mut answer = vec![];
    while let Some(owed @ [_, ..]) = in_pieces.owed() {
        let part = &owed[..owed.len().min(at_a_time)];
        answer.extend_from_slice(part);
        let length = part.len();
        in_pieces.sent(length);
    }
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 "), "{head}");
    assert_eq!(head.starts_with("HTTP/1.1 200 "), matches!(asked, Request::Metrics { .. }));
    if asked != (Request::Metrics { body: false }) {
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{answer}");
    }
    Ok(())
}

/// Something like a request.
fn request(bytes: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "get", "", "OPTIONS"];
    const PATHS: [&str; 6] = ["/metrics", "/", "/metrics?x", "*", "http://a/metrics", "/\u{e9}"];
    const VERSIONS: [&str; 5] = ["HTTP/1.1", "HTTP/1.0", "HTTP/2", "", "HTTP/1.1 x"];
    const NAMES: [&str; 5] = ["Host", "host", "Content-Length", "Transfer-Encoding", ""];
    const VALUES: [&str; 8] =
        ["localhost", "127.0.0.1:9750", "[::1]", "[::1]:80", "example.org", ":", "[", "chunked"];
    const ENDS: [&str; 4] = ["\r\n", "\r\n", "\n", "\r"];
    if chance(bytes, 1, 8)? {
        return Ok(bytes.bytes(bytes.len())?.to_vec());
    }
    let mut request = format!(
        "{} {} {}{}",
        bytes.choose(&METHODS)?,
        bytes.choose(&PATHS)?,
        bytes.choose(&VERSIONS)?,
        bytes.choose(&ENDS)?
    );
    while chance(bytes, 3, 4)? {
        let name = match chance(bytes, 1, 4)? {
            true => bytes.arbitrary::<Word>()?.0,
            false => (*bytes.choose(&NAMES)?).to_owned(),
        };
        let mut value = match chance(bytes, 1, 4)? {
            true => bytes.arbitrary::<Word>()?.0,
            false => (*bytes.choose(&VALUES)?).to_owned(),
        };
        if chance(bytes, 1, 16)? {
            value = value.repeat((bytes.arbitrary::<Number>()?.0 % 4096) as usize);
        }
        request += &format!("{name}: {value}{}", bytes.choose(&ENDS)?);
    }
    request += bytes.choose(&ENDS)?;
    Ok([request.as_bytes(), bytes.bytes(bytes.len())?].concat())
}
