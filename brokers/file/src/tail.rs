//! What the end of a file looks like.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::encode::START;

/// The end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// It is empty or ends with a line feed.
    Clean,
    /// It ends with half a line of ours, which begins here.
    Torn(u64),
    /// It ends with half a line that is not ours.
    Foreign,
}

/// A line is at most this long: the largest payload in Base64, with room for the rest. What has no line feed within
/// this distance of its end was not written by us.
pub(crate) const MAX_LINE: u64 = 64 * 1024 * 1024;
const CHUNK: usize = 64 * 1024;

/// Looks at the end of a file of the given length.
pub(crate) fn tail(file: &File, length: u64) -> io::Result<Tail> {
    let Some(start) = last_line(file, length)? else {
        return Ok(Tail::Foreign);
    };
    if start == length {
        return Ok(Tail::Clean);
    }
    let mut head = [0; START.len()];
    let size = usize::try_from(length - start).map_or(head.len(), |size| size.min(head.len()));
    let head = &mut head[..size];
    file.read_exact_at(head, start)?;
    // A power cut may leave the new length without the data, which reads as zeros.
    let is_ours = START.starts_with(head) || head.iter().all(|byte| *byte == 0);
    Ok(if is_ours { Tail::Torn(start) } else { Tail::Foreign })
}

/// Whether the byte before an offset ends a line; nothing stands before the first byte.
pub(crate) fn begins_a_line(file: &File, offset: u64) -> io::Result<bool> {
    let Some(before) = offset.checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [0];
    file.read_exact_at(&mut byte, before)?;
    Ok(byte == *b"\n")
}

/// Where the text behind the last line feed begins: at the very end of a clean file. None when that is too far away.
fn last_line(file: &File, length: u64) -> io::Result<Option<u64>> {
    let mut chunk = vec![0; CHUNK];
    let mut end = length;
    while end > 0 {
        if length - end > MAX_LINE {
            return Ok(None);
        }
        let start = end.saturating_sub(CHUNK as u64);
        // The difference is at most CHUNK.
        let chunk = &mut chunk[..(end - start) as usize];
        file.read_exact_at(chunk, start)?;
        if let Some(at) = chunk.iter().rposition(|byte| *byte == b'\n') {
            return Ok(Some(start + at as u64 + 1));
        }
        end = start;
    }
    Ok(Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(content: &[u8]) -> Tail {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(content, 0).unwrap();
        tail(&file, content.len() as u64).unwrap()
    }

    #[test]
    fn only_half_a_line_of_ours_may_be_cut() {
        let long = [b"{}\n{\"event_id\":\"".as_slice(), &vec![b'x'; 3 * CHUNK]].concat();
        for (content, expected) in [
            (b"".as_slice(), Tail::Clean),
            (b"\n", Tail::Clean),
            (b"{}\n", Tail::Clean),
            (b"{", Tail::Torn(0)),
            (b"{}\n{\"eve", Tail::Torn(3)),
            (b"{}\n{\"event_id\":\"a\"}", Tail::Torn(3)),
            (b"{}\n\0\0\0", Tail::Torn(3)),
            (&long, Tail::Torn(3)),
            (b"{}\nroot:x:0:0", Tail::Foreign),
            (b"SQLite format 3\0", Tail::Foreign),
        ] {
            assert_eq!(tail_of(content), expected);
        }
    }

    #[test]
    fn a_file_without_line_ends_is_not_searched_to_its_beginning() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        assert_eq!(tail(&file, 1 << 40).unwrap(), Tail::Foreign);
    }
}
