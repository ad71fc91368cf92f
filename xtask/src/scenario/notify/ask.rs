//! Asking the service that notifies, over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::failure::{Doing, Failure, Result};

/// What was answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Answer {
    /// It must have this status.
    pub(super) fn expect(self, status: u16) -> Result<Value> {
        match self.status == status {
            true => Ok(self.body),
            false => Err(Failure::new(format!(
                "the answer is {}, not {status}: {}",
                self.status, self.body
            ))),
        }
    }
}

/// One request on a connection of its own, as a person with this signature or as a service.
pub(super) fn ask(
    port: u16,
    (method, path): (&str, &str),
    signature: Option<&str>,
    body: Option<&Value>,
) -> Result<Answer> {
    let doing = || format!("{method} {path}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).doing(doing)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let signed = signature.map_or(String::new(), |signature| {
        format!("x-postrider-signature: {signature}\r\n")
    });
    let body = body.map_or(String::new(), Value::to_string);
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n{signed}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).doing(doing)?;
    read(&String::from_utf8_lossy(&answer)).ok_or_else(|| Failure::new(format!("{}: no answer", doing())))
}

fn read(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    // The documents are small: an answer in chunks would be one, which begins behind its length.
    let body = body.find('{').map_or("null", |at| &body[at..]);
    let body = body.rfind('}').map_or(body, |at| &body[..=at]);
    Some(Answer {
        status,
        body: serde_json::from_str(body).unwrap_or(Value::Null),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let answer = read("HTTP/1.1 403 Forbidden\r\na: b\r\n\r\n{\"code\":\"signature\"}\n").unwrap();
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (403, &Value::from("signature"))
        );
        assert!(answer.expect(200).is_err());
        assert_eq!(read("HTTP/1.1 204 No Content\r\n\r\n").unwrap().body, Value::Null);
        assert!(read("nonsense").is_none());
    }
}
