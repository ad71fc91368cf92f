//! Where a database is and how the way there is protected.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use postrider_core::{Secret, StoreError, StoreErrorKind};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::{PgOptions, PgTls};

/// What to do about settings that cannot be used.
pub(crate) const CORRECT: &str = "correct the settings of the outbox";

/// An address with everything that is needed to connect to it.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) tls: Option<MakeRustlsConnect>,
    /// Where the url is read again.
    url_file: Option<PathBuf>,
}

impl std::fmt::Debug for Address {
    /// The hosts and nothing else: a configuration holds the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, TLS {}", self.config.get_hosts(), self.tls.is_some())
    }
}

impl Address {
    /// Reads a url. The driver knows neither `verify-full` nor `sslrootcert`, so these are taken out first.
    pub(crate) fn parse(url: &str, options: &PgOptions) -> Result<Self, StoreError> {
        let (plain, mode, authority) = take_tls(url);
        // The driver's error may quote the url, and with it the password.
        let config: Config = plain.parse().map_err(|_: tokio_postgres::Error| {
            refuse("the url of the database cannot be read; it is like postgres://user@host:5432/database")
        })?;
        let tls = match (&options.tls, mode.as_deref(), authority) {
            (PgTls::Auto, _, Some(file)) => PgTls::Authority(file.into()),
            (PgTls::Auto, Some("disable"), None) => PgTls::Off,
            (tls, ..) => tls.clone(),
        };
        let asked = matches!(mode.as_deref(), Some("verify-full" | "verify-ca" | "require"));
        Self::with(config, &tls, asked, options)
    }

    /// Takes a configuration of the driver as it is, apart from the login of the options and what the promises rest on.
    fn with(mut config: Config, tls: &PgTls, asked: bool, options: &PgOptions) -> Result<Self, StoreError> {
        let tls = match tls {
            PgTls::Auto if asked || !is_local(&config) => Some(verified(system_roots()?)?),
            PgTls::Auto | PgTls::Off => None,
            PgTls::Authority(file) => Some(verified(roots_in(file)?)?),
            PgTls::Unverified => Some(unverified()?),
        };
        if let Some(user) = &options.user {
            config.user(user);
        }
        if let Some(password) = &options.password {
            config.password(password.expose());
        }
        // Below the lease: a host that dies without a word must not hold a shard for hours. The system counts in
        // seconds.
        let seconds = |limit: std::time::Duration| limit.max(std::time::Duration::from_secs(1));
        config
            .ssl_mode(if tls.is_some() {
                SslMode::Require
            } else {
                SslMode::Disable
            })
            .application_name("postrider")
            .connect_timeout(options.connect_timeout)
            .tcp_user_timeout(seconds(options.statement_timeout * 2))
            .keepalives(true)
            .keepalives_idle(seconds(options.statement_timeout))
            .keepalives_interval(seconds(options.statement_timeout / 2))
            .keepalives_retries(3);
        Ok(Self {
            config,
            tls: tls.map(MakeRustlsConnect::new),
            url_file: None,
        })
    }

    /// The same with a file to read the url from again.
    pub(crate) fn read_again_from(mut self, file: Option<&PathBuf>) -> Self {
        self.url_file = file.cloned();
        self
    }

    /// The address with url and password as their files have them now: whoever rotates a password rewrites the file and
    /// need not restart the relay.
    pub(crate) async fn now(&self, options: &PgOptions) -> Result<Self, StoreError> {
        let mut now = match &self.url_file {
            Some(file) => Self::parse(held_by(file).await?.expose(), options)?,
            None => self.clone(),
        };
        if let Some(file) = &options.password_file {
            now.config.password(held_by(file).await?.expose());
        }
        Ok(now)
    }
}

/// The secret in a file. A file that is just being replaced is read again at the next attempt to connect.
async fn held_by(file: &Path) -> Result<Secret, StoreError> {
    let text = tokio::fs::read_to_string(file).await.map_err(|error| {
        let text = format!("the login of the database cannot be read from {}", file.display());
        StoreError::new(StoreErrorKind::Denied, text)
            .with_source(error)
            .with_advice("let the relay read the file; the next attempt to connect reads it again")
    })?;
    Ok(Secret::of_file(&text))
}

/// The url without the parameters about TLS, the mode, and the file of authorities.
fn take_tls(url: &str) -> (String, Option<String>, Option<String>) {
    let Some((base, query)) = url.split_once('?') else {
        return (url.to_owned(), None, None);
    };
    let (mut mode, mut authority) = (None, None);
    let mut rest = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value.to_owned()),
            Some(("sslrootcert", value)) => authority = Some(value.replace("%2F", "/").replace("%2f", "/")),
            _ => rest.push(pair),
        }
    }
    let plain = match rest.is_empty() {
        true => base.to_owned(),
        false => format!("{base}?{}", rest.join("&")),
    };
    (plain, mode, authority)
}

/// Whether nobody outside this machine is on the way.
fn is_local(config: &Config) -> bool {
    let local = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        }
    };
    config.get_hosts().iter().all(local)
}

fn verified(roots: RootCertStore) -> Result<ClientConfig, StoreError> {
    Ok(builder()?.with_root_certificates(roots).with_no_client_auth())
}

fn unverified() -> Result<ClientConfig, StoreError> {
    let anybody = Arc::new(Anybody(Arc::new(ring::default_provider())));
    let builder = builder()?.dangerous().with_custom_certificate_verifier(anybody);
    Ok(builder.with_no_client_auth())
}

/// The provider is named, because with several in one build the default of the library panics.
fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, StoreError> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse("TLS cannot be set up").with_source(error))
}

fn system_roots() -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    match roots.is_empty() {
        true => Err(refuse(
            "the system has no certificate authorities to verify the database with; install them or name a file",
        )),
        false => Ok(roots),
    }
}

fn roots_in(file: &Path) -> Result<RootCertStore, StoreError> {
    let failed = || {
        refuse(format!(
            "the certificate authorities in {} cannot be read",
            file.display()
        ))
    };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| failed().with_source(error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| failed().with_source(error))?;
        roots
            .add(certificate)
            .map_err(|error| failed().with_source(error))?;
    }
    match roots.is_empty() {
        true => Err(failed()),
        false => Ok(roots),
    }
}

/// No database was asked: the settings are wrong, and stay so.
fn refuse(text: impl Into<Box<str>>) -> StoreError {
    StoreError::new(StoreErrorKind::Other, text).with_advice(CORRECT)
}

/// Believes whoever answers. Only made when a person asked for exactly that.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_plain_and_everything_else_verified() {
        let parse = |url: &str| Address::parse(url, &PgOptions::default());
        for plain in [
            "postgres://u@127.0.0.1/d",
            "postgres://u@localhost:5433/d",
            "postgres://u@h/d?sslmode=disable",
        ] {
            assert!(parse(plain).unwrap().tls.is_none(), "{plain}");
        }
        // Without authorities in the system this is refused, which is not plain either.
        for verified in [
            "postgres://u@db.example/d",
            "postgres://u@127.0.0.1/d?sslmode=verify-full",
        ] {
            assert!(
                parse(verified).map_or(true, |address| address.tls.is_some()),
                "{verified}"
            );
        }
    }

    #[test]
    fn the_options_win_over_the_url() {
        let options = PgOptions::default().login(Some("relay".to_owned()), Some(Secret::new("s3")));
        for url in ["postgres://a:b@127.0.0.1/d", "postgres://127.0.0.1/d"] {
            let config = Address::parse(url, &options).unwrap().config;
            assert_eq!(
                (config.get_user(), config.get_password()),
                (Some("relay"), Some(&b"s3"[..]))
            );
        }
        let config = Address::parse("postgres://a:b@127.0.0.1/d", &PgOptions::default())
            .unwrap()
            .config;
        assert_eq!(
            (config.get_user(), config.get_password()),
            (Some("a"), Some(&b"b"[..]))
        );
    }

    #[test]
    fn no_error_and_no_debug_shows_the_password() {
        let error = Address::parse("postgres://u:hunter2@h:notaport/d", &PgOptions::default()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
        let address = Address::parse("postgres://u:hunter2@127.0.0.1/d", &PgOptions::default()).unwrap();
        assert!(!format!("{address:?}").contains("hunter2"));
    }
}
