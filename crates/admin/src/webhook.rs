//! A url that is told of something: one POST, answered by a status.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::rt::{Read, Write};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use postrider_core::Secret;

use crate::dial::{Dial, Stream};

/// Connections that are kept for the next call.
const IDLE: usize = 32;
/// What is read of an answer so that its connection can be used again. Nothing of it is looked at.
const REST: usize = 64 * 1024;
/// How long that may take: the status has come, and nobody is to wait for more.
const REST_TIME: Duration = Duration::from_secs(1);

/// Where to. The path of such a url is often all the secret there is, so nothing of it but the host is ever shown.
/// Clones share their connections.
#[derive(Clone, Debug)]
pub struct Webhook {
    url: Secret,
    host: String,
    port: u16,
    tls: bool,
    dial: Dial,
    idle: Arc<Mutex<Vec<SendRequest<Body>>>>,
}

/// What a url answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The status. A redirect is one like any other: following it would carry the body to where nobody sent it.
    pub status: u16,
    /// When it wants to be asked again, as it said it.
    pub retry_after: Option<String>,
}

/// Why there was no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// Whether there was a connection, so that the call may have arrived.
    pub reached: bool,
    /// What happened, with the host and nothing else of the url.
    pub text: String,
}

impl Webhook {
    /// Reads a url. The error never repeats it.
    pub fn new(url: Secret) -> Result<Self, &'static str> {
        let unreadable = "must be a url such as https://hooks.example.com/path";
        let uri: Uri = url.expose().parse().map_err(|_| unreadable)?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(unreadable),
        };
        let authority = uri.authority().ok_or(unreadable)?;
        if authority.as_str().contains('@') {
            return Err("must not have a login in it: a webhook takes its secret in the path or the query");
        }
        Ok(Self {
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            tls,
            url,
            dial: Dial::default(),
            idle: Arc::default(),
        })
    }

    /// The same, which connects in another way.
    pub fn dialled_by(mut self, dial: Dial) -> Self {
        self.dial = dial;
        self
    }

    /// The same, which shares the connections of another url if that is of the same server.
    pub fn sharing(mut self, other: &Webhook) -> Self {
        if self.server() == other.server() {
            self.idle = Arc::clone(&other.idle);
        }
        self
    }

    /// Which server it is of: whether with TLS, the host and the port.
    pub fn server(&self) -> (bool, &str, u16) {
        (self.tls, &self.host, self.port)
    }

    /// What may be shown of it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The url without what may be a secret.
    pub fn show(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}:{}/[redacted]", self.host, self.port)
    }

    /// Hands a document over. Only a status from 200 to 299 says that it was taken.
    pub async fn post(&self, document: String) -> Result<(), String> {
        let json = [(CONTENT_TYPE.as_str(), "application/json")];
        match self.call(&json, document.into()).await {
            Ok(Answered {
                status: 200..=299, ..
            }) => Ok(()),
            Ok(Answered { status, .. }) => Err(format!("{} answered {status}", self.host)),
            Err(Unanswered { text, .. }) => Err(text),
        }
    }

    /// Posts a body with these headers and gives the answer. A header that HTTP cannot carry is left out. The caller
    /// bounds the time: dropped, the call closes its connection.
    ///
    /// A connection of an earlier call is used again. The other side may have closed it at the same moment, so where
    /// such a one gives no answer the call is made once more on a new one, and may arrive twice.
    pub async fn call(&self, headers: &[(&str, &str)], body: Bytes) -> Result<Answered, Unanswered> {
        while let Some(mut sender) = self.take() {
            if sender.ready().await.is_err() {
                continue;
            }
            match self.exchange(sender, headers, body.clone()).await {
                Err(_) => break,
                answered => return answered,
            }
        }
        let sender = self
            .connect()
            .await
            .map_err(|text| Unanswered { reached: false, text })?;
        self.exchange(sender, headers, body).await
    }

    async fn connect(&self) -> Result<SendRequest<Body>, String> {
        match self.dial.connect(&self.host, self.port, self.tls).await? {
            Stream::Plain(stream) => self.shake_hands(TokioIo::new(stream)).await,
            Stream::Tls(stream) => self.shake_hands(TokioIo::new(stream)).await,
        }
    }

    async fn shake_hands(
        &self,
        stream: impl Read + Write + Unpin + Send + 'static,
    ) -> Result<SendRequest<Body>, String> {
        let (sender, connection) = handshake(stream).await.map_err(|error| self.silent(&error))?;
        // It ends with the sender, so nobody has to wait for it.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    async fn exchange(
        &self,
        mut sender: SendRequest<Body>,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Answered, Unanswered> {
        let failed = |text| Unanswered { reached: true, text };
        let request = self.request(headers, body).map_err(failed)?;
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| failed(self.silent(&error)))?;
        let retry_after = answer.headers().get(RETRY_AFTER);
        let answered = Answered {
            status: answer.status().as_u16(),
            retry_after: retry_after.and_then(|value| value.to_str().ok().map(str::to_owned)),
        };
        if is_read(answer).await {
            self.keep(sender);
        }
        Ok(answered)
    }

    fn request(&self, headers: &[(&str, &str)], body: Bytes) -> Result<Request<Body>, String> {
        let uri: Uri = self.url.expose().parse().unwrap_or_default();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = uri.authority().map_or(self.host.as_str(), |all| all.as_str());
        let mut request = Request::post(path)
            .header(HOST, authority)
            .header(USER_AGENT, "postrider");
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
                request = request.header(name, value);
            }
        }
        // The error might quote the path.
        request
            .body(Body::from(body))
            .map_err(|_| "the url cannot be asked".to_owned())
    }

    fn silent(&self, error: &hyper::Error) -> String {
        format!("{} did not answer: {error}", self.host)
    }

    fn take(&self) -> Option<SendRequest<Body>> {
        let mut idle = self.idle();
        idle.retain(|sender| !sender.is_closed());
        idle.pop()
    }

    fn keep(&self, sender: SendRequest<Body>) {
        let mut idle = self.idle();
        if idle.len() < IDLE {
            idle.push(sender);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<SendRequest<Body>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the rest of an answer; false where that is too much to wait for.
async fn is_read(answer: Response<hyper::body::Incoming>) -> bool {
    let rest = to_bytes(Body::new(answer.into_body()), REST);
    matches!(tokio::time::timeout(REST_TIME, rest).await, Ok(Ok(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_never_shown() {
        let webhook = Webhook::new(Secret::new("https://hooks.example/T0/s3cret?x=1")).unwrap();
        assert_eq!((webhook.host(), webhook.port), ("hooks.example", 443));
        for shown in [format!("{webhook:?}"), webhook.show()] {
            assert!(!shown.contains("s3cret"), "{shown}");
        }
        for wrong in [
            "hooks.example/x",
            "ftp://a/b",
            "https://user:s3cret@a/b",
            "https://",
        ] {
            let error = Webhook::new(Secret::new(wrong)).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
