//! What is read from outside at once: one payload or one line, and no more of it than an event or a row can have, so
//! that it fills no memory where it has no end.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;

use postrider_core::limits;

use crate::failure::Failure;

/// A payload from a file.
pub fn payload(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error: io::Error| {
        Failure::input(format!("cannot read the payload from {}", path.display())).because(&error)
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(limits::PAYLOAD as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() > limits::PAYLOAD {
        let text = format!(
            "{} has more than the {} bytes that a payload may have",
            path.display(),
            limits::PAYLOAD
        );
        let advice = "keep it elsewhere, and send an event that says where";
        return Err(Failure::input(text).advice(advice));
    }
    Ok(bytes)
}

/// The next line without its end; none behind the last.
pub fn line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    input.take(limits::ROW as u64 + 1).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.len() > limits::ROW {
        let text = format!("it has more than the {} bytes that a line may have", limits::ROW);
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|error| {
        let place = error.utf8_error().valid_up_to() + 1;
        let text = format!("it is not UTF-8 from byte {place} on");
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_without_an_end_is_refused() {
        let refused = payload(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(refused.contains("more than the 16777216 bytes"), "{refused}");
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let mut endless = io::BufReader::new(io::repeat(b'x'));
        assert!(line(&mut endless).unwrap_err().to_string().contains("67108864"));
        let mut few = io::Cursor::new("a\r\n\nb");
        let mut read = || line(&mut few).unwrap();
        assert_eq!(
            [read(), read(), read(), read()],
            [
                Some("a\r".to_owned()),
                Some(String::new()),
                Some("b".to_owned()),
                None
            ]
        );
    }

    #[test]
    fn a_line_that_is_no_text_says_where() {
        let refused = line(&mut &b"ab\xffc\n"[..]).unwrap_err().to_string();
        assert_eq!(refused, "it is not UTF-8 from byte 3 on");
    }
}
