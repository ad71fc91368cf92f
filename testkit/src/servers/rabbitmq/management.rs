//! The little of the management API that tests need. The command line tool takes seconds for the same.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use postrider_core::json;

use super::{PASSWORD, USER};

/// Creates or changes something.
pub(super) fn put(port: u16, path: &str, body: &str) -> io::Result<()> {
    expect("PUT", path, ask(port, "PUT", path, body)?).map(drop)
}

/// Removes something.
pub(super) fn delete(port: u16, path: &str) -> io::Result<()> {
    expect("DELETE", path, ask(port, "DELETE", path, "")?).map(drop)
}

/// Whether it is there and lets us in.
pub(super) fn answers(port: u16) -> bool {
    ask(port, "GET", "whoami", "").is_ok_and(|(status, _)| status == 200)
}

fn expect(method: &str, path: &str, (status, text): (u16, String)) -> io::Result<String> {
    match status {
        200..=299 => Ok(text),
        _ => Err(io::Error::other(format!("{method} /api/{path}: {status} {text}"))),
    }
}

fn ask(port: u16, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut login = Vec::new();
    json::push_base64(&mut login, format!("{USER}:{PASSWORD}").as_bytes());
    // It writes a JSON string.
    let login = String::from_utf8_lossy(&login).replace('"', "");
    let length = body.len();
    write!(
        stream,
        "{method} /api/{path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {login}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer
        .split_whitespace()
        .nth(1)
        .and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("not an answer of HTTP"))?;
    Ok((status, answer))
}
