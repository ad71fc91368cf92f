//! A url that is told of something: one POST of a JSON document, answered by a status.

use std::sync::Arc;

use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::rt::{Read, Write};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use postrider_core::Secret;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Where to. The path of such a url is often all the secret there is, so nothing of it but the host is ever shown.
#[derive(Clone, Debug)]
pub struct Webhook {
    url: Secret,
    host: String,
    port: u16,
    tls: bool,
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
        })
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

    /// Hands a document over. Only a status from 200 to 299 says that it was taken; a redirect is not followed, because
    /// it would carry the document to where nobody sent it.
    pub async fn post(&self, document: String) -> Result<(), String> {
        // The brackets of an address of IPv6 belong to the url.
        let host = self.host.trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, self.port)).await;
        let stream = stream.map_err(|error| format!("{} cannot be reached: {error}", self.host))?;
        if !self.tls {
            return self.send(TokioIo::new(stream), document).await;
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let stream = connector()?.connect(name, stream).await;
        let stream = stream.map_err(|error| format!("no TLS with {}: {error}", self.host))?;
        self.send(TokioIo::new(stream), document).await
    }

    async fn send(
        &self,
        stream: impl Read + Write + Unpin + Send + 'static,
        document: String,
    ) -> Result<(), String> {
        let failed = |error: hyper::Error| format!("{} did not answer: {error}", self.host);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream)
            .await
            .map_err(failed)?;
        // It ends with the sender, so nobody has to wait for it.
        tokio::spawn(async move { drop(connection.await) });
        let answer = sender
            .send_request(self.request(document)?)
            .await
            .map_err(failed)?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("{} answered {}", self.host, status.as_u16())),
        }
    }

    fn request(&self, document: String) -> Result<Request<String>, String> {
        let uri: Uri = self.url.expose().parse().unwrap_or_default();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = uri.authority().map_or(self.host.as_str(), |all| all.as_str());
        let request = Request::post(path)
            .header(HOST, authority)
            .header(USER_AGENT, "postrider")
            .header(CONTENT_TYPE, "application/json");
        // The error might quote the path.
        request
            .body(document)
            .map_err(|_| "the url cannot be asked".to_owned())
    }
}

/// Certificates are verified, always, by the authorities of the machine.
fn connector() -> Result<TlsConnector, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err("this machine has no certificates of authorities".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
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
