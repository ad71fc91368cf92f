//! How a webhook connects: to which addresses, within which time, with which authorities.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How a [`crate::Webhook`] connects. Clones share the certificates of the machine, which are read once.
#[derive(Clone, Default)]
pub struct Dial {
    public_only: bool,
    within: Option<Duration>,
    tls: Arc<OnceLock<Arc<ClientConfig>>>,
}

/// What was connected.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Dial {
    /// Refuses every host of which any address is not public. For urls that strangers give: one that leads to this
    /// machine or its network would make them the caller of what only we may call. What is checked is what is
    /// connected to, so that a name cannot lead elsewhere a moment later.
    pub fn public_only(mut self, only: bool) -> Self {
        self.public_only = only;
        self
    }

    /// How long finding the host, connecting and TLS may take together. Default: for as long as the call may.
    pub fn within(mut self, limit: Duration) -> Self {
        self.within = Some(limit);
        self
    }

    /// Connects. The error has the host and nothing else of the url.
    pub(crate) async fn connect(&self, host: &str, port: u16, tls: bool) -> Result<Stream, String> {
        let connecting = self.connect_in_any_time(host, port, tls);
        match self.within {
            None => connecting.await,
            Some(limit) => match tokio::time::timeout(limit, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(format!("{host} cannot be reached within {limit:?}")),
            },
        }
    }

    async fn connect_in_any_time(&self, host: &str, port: u16, tls: bool) -> Result<Stream, String> {
        // The brackets of an address of IPv6 belong to the url.
        let name = host.trim_matches(['[', ']']);
        let away = |error| format!("{host} cannot be reached: {error}");
        let addresses: Vec<SocketAddr> = lookup_host((name, port)).await.map_err(away)?.collect();
        let refused = |address: &&SocketAddr| !self.takes(address.ip());
        if let Some(address) = addresses.iter().find(refused) {
            return Err(format!(
                "{host} has the address {}, which is not public; only where private addresses are allowed is it called",
                address.ip()
            ));
        }
        let stream = TcpStream::connect(&*addresses).await.map_err(away)?;
        if !tls {
            return Ok(Stream::Plain(stream));
        }
        let server = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
        let stream = self.connector()?.connect(server, stream).await;
        let stream = stream.map_err(|error| format!("no TLS with {host}: {error}"))?;
        Ok(Stream::Tls(Box::new(stream)))
    }

    /// Whether this address may be called.
    pub fn takes(&self, address: IpAddr) -> bool {
        !self.public_only || is_public(address)
    }

    /// Certificates are verified, always, by the authorities of the machine.
    fn connector(&self) -> Result<TlsConnector, String> {
        let config = match self.tls.get() {
            Some(config) => Arc::clone(config),
            None => {
                let read = read_authorities()?;
                Arc::clone(self.tls.get_or_init(|| read))
            }
        };
        Ok(TlsConnector::from(config))
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dial {
            public_only, within, ..
        } = self;
        f.debug_struct("Dial")
            .field("public_only", public_only)
            .field("within", within)
            .finish_non_exhaustive()
    }
}

fn read_authorities() -> Result<Arc<ClientConfig>, String> {
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
    Ok(Arc::new(config))
}

/// Whether an address belongs to the internet and not to this machine, its network or nobody.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let reserved = matches!(
        (a, b, c),
        // This network; shared by providers; of protocols; of benchmarks; and what was never given out.
        (0, _, _) | (100, 64..=127, _) | (192, 0, 0) | (198, 18..=19, _) | (240.., _, _)
    );
    !(reserved
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        // An address of IPv4 in other words counts as what it leads to.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        // Tunnels that hide an address of IPv4, and what is for documents.
        [0x2001, 0 | 0xdb8, ..] => false,
        // All that was ever given out begins with these bits.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for public in [
            "93.184.216.34",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for private in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.0.9",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_home_is_refused_before_anything_is_sent() {
        let dial = Dial::default().public_only(true);
        for host in ["localhost", "127.0.0.1", "[::1]", "0x7f.1", "2130706433"] {
            let Err(error) = dial.connect(host, 1, false).await else {
                panic!("{host} was connected to");
            };
            assert!(error.starts_with(host), "{error}");
            assert!(!error.contains("refused"), "it was tried: {error}");
        }
    }
}
