//! A client that says exactly what a test wants it to.

use std::net::SocketAddr;

use postrider_testkit::wait::PATIENCE;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The document, of an answer that must have this code.
    #[track_caller]
    pub(crate) fn is(&self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.body);
        match self.body.is_empty() {
            true => Value::Null,
            false => self.json(),
        }
    }

    /// The code for programs, of a refusal that must be a whole problem document.
    #[track_caller]
    pub(crate) fn refused(&self, code: u16) -> String {
        let document = self.is(code);
        assert_eq!(document["status"], code, "{document}");
        assert!(self.head.contains("application/problem+json"), "{}", self.head);
        let detail = document["detail"].as_str().unwrap_or_default();
        assert!(detail.len() > 20, "says what to do: {document}");
        document["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) address: SocketAddr,
    pub(crate) headers: String,
    pub(crate) host: &'static str,
}

impl Ask {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            headers: String::new(),
            host: "localhost",
        }
    }

    /// With one more header.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let headers = format!("{}{name}: {value}\r\n", self.headers);
        Self {
            headers,
            ..self.clone()
        }
    }

    pub(crate) fn key(&self, key: &str) -> Self {
        self.with("Idempotency-Key", key)
    }

    pub(crate) fn token(&self, token: &str) -> Self {
        self.with("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn signature(&self, signature: &str) -> Self {
        self.with("X-Postrider-Signature", signature)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.raw("GET", path, "", b"").await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.raw("DELETE", path, "", b"").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.raw("POST", path, JSON, body.to_string().as_bytes()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.raw("PUT", path, JSON, body.to_string().as_bytes()).await
    }

    /// Asks once, on a connection of its own.
    pub(crate) async fn raw(&self, method: &str, path: &str, more: &str, body: &[u8]) -> Answer {
        let more = format!("Content-Length: {}\r\n{more}", body.len());
        self.raw_chunked(method, path, &more, body).await
    }

    /// The same for a body that says itself how long it is.
    pub(crate) async fn raw_chunked(&self, method: &str, path: &str, more: &str, body: &[u8]) -> Answer {
        let mut stream = self.begin(method, path, more, body).await;
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
        // A server that refuses a body without reading it may reset the connection behind its answer.
        let _ = read.unwrap_or_else(|_| panic!("no answer to {method} {path}"));
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Answer {
            code: code.unwrap_or_else(|| panic!("{method} {path}: {text:?}")),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    /// Says it, and leaves the answer to be read.
    pub(crate) async fn begin(&self, method: &str, path: &str, more: &str, body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}{more}\r\n",
            self.host, self.headers,
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let _ = stream.write_all(body).await;
        stream
    }
}

pub(crate) const JSON: &str = "Content-Type: application/json\r\n";
