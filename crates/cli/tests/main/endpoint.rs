//! A service that is called over HTTP, and answers as a test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// One call as it arrived.
#[derive(Clone, Debug)]
pub struct Called {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Called {
    pub fn header(&self, name: &str) -> &str {
        let mut found = self.headers.iter().filter(|(it, _)| it == name);
        found.next().map_or("", |(_, value)| value)
    }

    pub fn id(&self) -> &str {
        self.header("event-id")
    }
}

/// What is answered: the status and more headers. It is given the call and how often its event was called for before.
type Answer = dyn Fn(&Called, usize) -> (u16, &'static str) + Send + Sync;

/// A service on a port of its own.
#[derive(Clone)]
pub struct Endpoint {
    pub port: u16,
    calls: Arc<Mutex<Vec<Called>>>,
}

impl Endpoint {
    pub fn start(answer: impl Fn(&Called, usize) -> (u16, &'static str) + Send + Sync + 'static) -> Self {
        Self::on(0, answer)
    }

    pub fn on(
        port: u16,
        answer: impl Fn(&Called, usize) -> (u16, &'static str) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let endpoint = Self {
            port: listener.local_addr().unwrap().port(),
            calls: Arc::default(),
        };
        let (answer, serving): (Arc<Answer>, _) = (Arc::new(answer), endpoint.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, serving) = (answer.clone(), serving.clone());
                std::thread::spawn(move || serving.serve(stream, &*answer));
            }
        });
        endpoint
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/orders/s3cret", self.port)
    }

    pub fn calls(&self) -> Vec<Called> {
        self.calls.lock().unwrap().clone()
    }

    /// The ids of the events that it was called for.
    pub fn ids(&self) -> Vec<String> {
        self.calls().iter().map(|call| call.id().to_owned()).collect()
    }

    fn serve(&self, stream: TcpStream, answer: &Answer) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        while let Some(call) = read(&mut reader) {
            let before = {
                let mut calls = self.calls.lock().unwrap();
                calls.push(call.clone());
                calls.iter().filter(|other| other.id() == call.id()).count() - 1
            };
            let (status, headers) = answer(&call, before);
            let text = format!("HTTP/1.1 {status} Said\r\n{headers}Content-Length: 5\r\n\r\nhello");
            if writer.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Called> {
    let line = |reader: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(line.trim_end().to_owned())
    };
    let path = line(reader)?.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let line = line(reader)?;
        let Some((name, value)) = line.split_once(": ") else {
            break;
        };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let mut call = Called {
        path,
        headers,
        body: Vec::new(),
    };
    let length = call.header("content-length").parse().unwrap_or(0);
    call.body.resize(length, 0);
    reader.read_exact(&mut call.body).ok()?;
    Some(call)
}
