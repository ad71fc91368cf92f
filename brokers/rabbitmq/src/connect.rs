//! One connection: dialled with a limit, encrypted where asked, and cut at once when it is no longer trusted.

use std::io;
use std::net::Shutdown;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_compat::CompatExt;
use lapin::tcp::{AsyncTcpStream, RustlsConnector, RustlsConnectorConfig};
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Connection, ConnectionProperties};
use postrider_core::{ErrorKind, Failure, Secret, causes};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::net::TcpStream;

use crate::error::{self, RabbitError};
use crate::{RabbitOptions, url};

/// Makes connections, each from scratch: the name is resolved anew every time, because a failover moves it.
#[derive(Clone)]
pub(crate) struct Dialer {
    place: Place,
    options: RabbitOptions,
    name: String,
}

impl Dialer {
    pub(crate) fn new(options: &RabbitOptions, role: &str) -> Result<Dialer, RabbitError> {
        Ok(Dialer {
            place: Place::new(options)?,
            options: options.clone(),
            name: format!("{} {role}", options.name),
        })
    }

    /// What the connection is called, here and in the broker's own lists.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) async fn dial(&self) -> Result<Live, Failure> {
        let place = self
            .place_now()
            .await
            .map_err(|failure| self.place.named(failure))?;
        let socket = Socket::default();
        let (kept, tls, limit) = (socket.clone(), place.tls.clone(), self.options.connect_timeout);
        // It runs on the client's own thread, which would outlive a connect that nobody waits for any more.
        let connect = async move |uri: AMQPUri, _| {
            let open = open(&uri, tls.as_ref(), &kept);
            match tokio::time::timeout(limit, open).await {
                Ok(opened) => opened.map_err(lapin::Error::from),
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        };
        let runtime = lapin::runtime::default_runtime().map_err(|error| error::connecting(&error))?;
        let properties = ConnectionProperties::default().with_connection_name(self.name.as_str().into());
        let connecting = Connection::connector(place.uri.clone(), runtime, connect, properties);
        match tokio::time::timeout(limit, connecting).await {
            Ok(Ok(connection)) => Ok(Live {
                connection,
                socket,
                is_cut: AtomicBool::new(false),
                max_body_bytes: AtomicUsize::new(usize::MAX),
            }),
            Ok(Err(error)) => {
                socket.cut();
                Err(place.named(error::connecting(&error)))
            }
            Err(_) => {
                socket.cut();
                let text = format!("no answer to a login within {limit:?}");
                Err(place.named(Failure::new(ErrorKind::Unreachable, text)))
            }
        }
    }

    /// The place with url and password as their files have them now: whoever rotates a password rewrites the file and
    /// need not restart the relay.
    async fn place_now(&self) -> Result<Place, Failure> {
        let mut place = match &self.options.url_file {
            None => self.place.clone(),
            Some(file) => {
                let mut options = self.options.clone();
                options.url = held_by("url", file).await?;
                Place::new(&options).map_err(|error| {
                    let text = format!("the url in {} cannot be used: {}", file.display(), causes(&error));
                    Failure::new(ErrorKind::Credentials, text)
                })?
            }
        };
        if let Some(file) = &self.options.password_file {
            let password = held_by("password", file).await?;
            place.uri.authority.userinfo.password = password.expose().to_owned();
        }
        Ok(place)
    }
}

/// The secret in a file. A file that is just being replaced is read again at the next attempt to connect.
async fn held_by(what: &str, file: &Path) -> Result<Secret, Failure> {
    let text = tokio::fs::read_to_string(file).await.map_err(|error| {
        let text = format!("the {what} cannot be read from {}: {error}", file.display());
        Failure::new(ErrorKind::Credentials, text)
    })?;
    Ok(Secret::of_file(&text))
}

/// Where a broker is, and how the way there is protected.
#[derive(Clone)]
struct Place {
    uri: AMQPUri,
    tls: Option<RustlsConnector>,
}

impl Place {
    fn new(options: &RabbitOptions) -> Result<Place, RabbitError> {
        let uri = url::parse(options)?;
        let tls = match uri.scheme {
            AMQPScheme::AMQP => None,
            AMQPScheme::AMQPS => Some(connector(options)?),
        };
        Ok(Place { uri, tls })
    }

    /// Names the broker in the failure, without its user or password.
    fn named(&self, failure: Failure) -> Failure {
        let authority = &self.uri.authority;
        let text = format!("{}:{}: {}", authority.host, authority.port, failure.text);
        Failure::new(failure.kind, text)
    }
}

/// A connection that was made.
pub(crate) struct Live {
    pub(crate) connection: Connection,
    socket: Socket,
    /// The client needs a moment to notice that its socket is gone.
    is_cut: AtomicBool,
    /// The limit that the broker named. It is this broker's as it runs now: whoever raises it restarts the broker, and
    /// what is redriven after that must not be held to the old one.
    max_body_bytes: AtomicUsize,
}

impl Live {
    pub(crate) fn is_up(&self) -> bool {
        !self.is_cut.load(Ordering::Acquire) && self.connection.status().connected()
    }

    /// Whether the broker said that it takes nothing at the moment.
    pub(crate) fn is_blocked(&self) -> bool {
        self.connection.status().blocked()
    }

    /// The largest frame; a message's properties must fit into one.
    pub(crate) fn frame_max(&self) -> usize {
        usize::try_from(self.connection.configuration().frame_max()).unwrap_or(usize::MAX)
    }

    /// The largest body that the broker takes, as far as it has said so.
    pub(crate) fn body_limit(&self) -> usize {
        self.max_body_bytes.load(Ordering::Relaxed)
    }

    /// The broker named its limit.
    pub(crate) fn limit_bodies(&self, limit: usize) {
        self.max_body_bytes.fetch_min(limit, Ordering::Relaxed);
    }

    /// Ends it without a word: what the client still holds is dropped, and its thread ends. A polite close would wait
    /// for a peer that does not answer.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        self.socket.cut();
    }

    /// Says goodbye, within a limit.
    pub(crate) async fn close(&self, limit: Duration) {
        let goodbye = self.connection.close(200, "OK".into());
        // A refusal means that it has ended already.
        let _ = tokio::time::timeout(limit, goodbye).await;
        self.cut();
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.cut();
    }
}

/// A second handle on the socket that the client reads and writes.
#[derive(Clone, Default)]
struct Socket(Arc<Mutex<Option<std::net::TcpStream>>>);

impl Socket {
    fn keep(&self, stream: TcpStream) -> io::Result<TcpStream> {
        let stream = stream.into_std()?;
        let second = stream.try_clone()?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(second);
        TcpStream::from_std(stream)
    }

    fn cut(&self) {
        if let Some(stream) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It fails only if the connection has ended, which is what was asked for.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

async fn open(
    uri: &AMQPUri,
    tls: Option<&RustlsConnector>,
    socket: &Socket,
) -> io::Result<AsyncTcpStream<async_compat::Compat<TcpStream>>> {
    let authority = &uri.authority;
    let stream = TcpStream::connect((authority.host.as_str(), authority.port)).await?;
    // Confirms are waited for, so nothing may linger for the sake of fuller packets.
    stream.set_nodelay(true)?;
    let stream = AsyncTcpStream::Plain(socket.keep(stream)?.compat());
    match tls {
        None => Ok(stream),
        Some(connector) => stream.into_rustls(connector, &authority.host).await,
    }
}

/// Certificates are always verified: against the authorities in the file, or else those of the machine.
fn connector(options: &RabbitOptions) -> Result<RustlsConnector, RabbitError> {
    // With a default installed, no other client of this process has to guess which one is meant. It fails if there is
    // one already, which is just as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let path = options.ca_file.clone().unwrap_or_else(|| "(system)".into());
    let unusable = |reason: String| RabbitError::Authorities {
        path: path.clone(),
        reason,
    };
    let config = match &options.ca_file {
        None => {
            RustlsConnectorConfig::new_with_native_certs().map_err(|error| unusable(error.to_string()))?
        }
        Some(file) => {
            let authorities = CertificateDer::pem_file_iter(file)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| unusable(error.to_string()))?;
            if authorities.is_empty() {
                return Err(unusable("there is no certificate in it".to_owned()));
            }
            RustlsConnectorConfig::default().with_parsable_certificates(authorities)
        }
    };
    config
        .connector_with_no_client_auth()
        .map_err(|error| unusable(error.to_string()))
}
