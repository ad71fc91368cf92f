//! `[admin]` and `[health]`: who may ask a running relay, and when something counts as trouble.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use postrider_admin::{Thresholds, check_address};
use postrider_core::Secret;
use serde::Deserialize;
use toml::Spanned;

use super::duration::{Span, show};
use super::error::Problem;
use super::relay::Relay;
use super::scalar::{Hidden, Whole, shown};
use super::secret::secret;

/// Not one of the ports that services like to have for themselves.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7787);
/// Nobody types a token, so it may be long enough that nobody guesses it.
const SHORTEST_TOKEN: usize = 16;

/// `[admin]` as it is written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminTable {
    listen: Option<Spanned<String>>,
    token: Option<Spanned<Hidden>>,
    token_file: Option<Spanned<PathBuf>>,
    max_types: Option<Whole<1, 10_000>>,
}

/// Where health and metrics are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Nobody said where: if somebody else is there already, it is left to him.
    Default,
    /// There and nowhere else.
    At(SocketAddr),
    Off,
}

impl Listen {
    pub fn show(self) -> String {
        match self {
            Listen::Default => DEFAULT_LISTEN.to_string(),
            Listen::At(address) => address.to_string(),
            Listen::Off => "off".to_owned(),
        }
    }
}

/// Who may ask a running relay, and where.
#[derive(Clone, Debug)]
pub struct Admin {
    pub listen: Listen,
    pub token: Option<Secret>,
    /// How many types of events are counted one by one.
    pub max_types: Option<usize>,
}

impl AdminTable {
    /// The file that holds its secret.
    pub fn secret_files(&self) -> Option<PathBuf> {
        self.token_file.as_ref().map(|file| file.get_ref().clone())
    }

    pub fn resolve(self) -> Result<Admin, Problem> {
        let token = secret("token", self.token, self.token_file)?;
        if let Some(token) = token
            .as_ref()
            .filter(|token| token.get_ref().expose().len() < SHORTEST_TOKEN)
        {
            let text = format!("a token has at least {SHORTEST_TOKEN} characters");
            return Err(Problem::new(text)
                .at(token.span())
                .help("make one with `openssl rand -hex 32`".to_owned()));
        }
        let token = token.map(Spanned::into_inner);
        let listen = match &self.listen {
            None => Listen::Default,
            Some(given) => listen(given, token.as_ref())?,
        };
        Ok(Admin {
            listen,
            token,
            max_types: self.max_types.and_then(|n| usize::try_from(n.0).ok()),
        })
    }
}

fn listen(given: &Spanned<String>, token: Option<&Secret>) -> Result<Listen, Problem> {
    let text = given.get_ref().trim();
    if text == "off" {
        return Ok(Listen::Off);
    }
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let address: SocketAddr = text.parse().map_err(|_| {
        let text = format!("must be an address with a port, or \"off\", is {}", shown(&text));
        Problem::new(text)
            .at(given.span())
            .help(format!("for example \"{DEFAULT_LISTEN}\" or \"[::1]:7787\""))
    })?;
    check_address(address, token).map_err(|error| {
        let help = "set `token_file` in [admin] to a file with a long random text, or listen on 127.0.0.1";
        Problem::new(error.to_string())
            .at(given.span())
            .help(help.to_owned())
    })?;
    Ok(Listen::At(address))
}

/// `[health]` as it is written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthTable {
    max_unpublished: Option<Whole<1, { i64::MAX as u64 }>>,
    max_age: Option<Span>,
    max_dead: Option<Whole<0, { i64::MAX as u64 }>>,
    failing_unpublished: Option<Spanned<Whole<1, { i64::MAX as u64 }>>>,
    failing_age: Option<Spanned<Span>>,
    stuck_after: Option<Spanned<Span>>,
}

impl HealthTable {
    pub fn resolve(self, relay: &Relay) -> Result<Thresholds, Problem> {
        let defaults = Thresholds::default();
        let max_unpublished = self.max_unpublished.map_or(defaults.max_unpublished, |n| n.0);
        let max_age = self.max_age.map_or(defaults.max_age, |span| span.0);
        // What is not set keeps its distance: a raised threshold must not make failing come before degraded.
        let failing_unpublished = match &self.failing_unpublished {
            Some(given) if given.get_ref().0 < max_unpublished => {
                let text = format!("must be at least max_unpublished, which is {max_unpublished}");
                return Err(Problem::new(text).at(given.span()));
            }
            Some(given) => given.get_ref().0,
            None => defaults
                .failing_unpublished
                .max(max_unpublished.saturating_mul(100)),
        };
        let failing_age = match &self.failing_age {
            Some(given) if given.get_ref().0 < max_age => {
                let text = format!("must be at least max_age, which is {}", show(max_age));
                return Err(Problem::new(text).at(given.span()));
            }
            Some(given) => given.get_ref().0,
            None => defaults.failing_age.max(max_age.saturating_mul(12)),
        };
        let stuck_after = match &self.stuck_after {
            Some(given) if given.get_ref().0.as_secs() < 1 => {
                return Err(Problem::new("must be at least 1s").at(given.span()));
            }
            Some(given) => given.get_ref().0,
            None => defaults.stuck_after,
        };
        Ok(Thresholds {
            max_unpublished,
            max_age,
            max_dead: self.max_dead.map_or(defaults.max_dead, |n| n.0),
            failing_unpublished,
            failing_age,
            stalled_after: relay.settings.stalled_after,
            stuck_after,
        })
    }
}
