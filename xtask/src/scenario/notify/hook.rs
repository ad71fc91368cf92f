//! A url that is told of pushes, and remembers of which.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::failure::Result;

/// A server on loopback, for as long as this process lives.
pub(super) struct Hook {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    /// What is answered.
    status: AtomicU16,
    /// How often each push was taken, by its id.
    taken: Mutex<BTreeMap<String, u64>>,
    /// How many calls were refused.
    refused: Mutex<u64>,
}

impl Hook {
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            status: AtomicU16::new(200),
            taken: Mutex::default(),
            refused: Mutex::default(),
        });
        let of_threads = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&of_threads);
                // A caller that goes away in the middle is its own affair.
                thread::spawn(move || drop(shared.answer(stream)));
            }
        });
        Ok(Self { port, shared })
    }

    pub(super) fn url(&self, user: &str) -> String {
        format!("http://127.0.0.1:{}/{user}", self.port)
    }

    /// Answers with this status from now on.
    pub(super) fn answer_with(&self, status: u16) {
        self.shared.status.store(status, Ordering::SeqCst);
    }

    /// How often each push was taken.
    pub(super) fn taken(&self) -> BTreeMap<String, u64> {
        self.shared
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn refused(&self) -> u64 {
        *self.shared.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn answer(&self, stream: TcpStream) -> Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let (mut id, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let Some((name, value)) = line.trim_end().split_once(':') else {
                // The first line, or the empty one behind the headers.
                if line.trim_end().is_empty() {
                    break;
                }
                continue;
            };
            match name.to_ascii_lowercase().as_str() {
                "webhook-id" => value.trim().clone_into(&mut id),
                "content-length" => length = value.trim().parse()?,
                _ => {}
            }
        }
        reader.take(length).read_to_end(&mut Vec::new())?;
        let status = self.status.load(Ordering::SeqCst);
        match status {
            200 => {
                *self
                    .taken
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .entry(id)
                    .or_default() += 1
            }
            _ => *self.refused.lock().unwrap_or_else(PoisonError::into_inner) += 1,
        }
        let mut stream = stream;
        write!(
            stream,
            "HTTP/1.1 {status} -\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )?;
        Ok(stream.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(hook: &Hook) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", hook.port)).unwrap();
        write!(
            stream,
            "POST /ann HTTP/1.1\r\nWebhook-Id: n-1\r\ncontent-length: 2\r\n\r\n{{}}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn it_counts_what_it_took_and_what_it_refused() {
        let hook = Hook::start().unwrap();
        assert!(post(&hook).starts_with("HTTP/1.1 200"));
        hook.answer_with(500);
        assert!(post(&hook).starts_with("HTTP/1.1 500"));
        assert_eq!(hook.taken(), BTreeMap::from([("n-1".to_owned(), 1)]));
        assert_eq!(hook.refused(), 1);
    }
}
