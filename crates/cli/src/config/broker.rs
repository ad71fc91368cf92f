//! `[broker.NAME]`: where messages go.

use std::ops::Range;
use std::path::PathBuf;

use postrider_core::{Secret, redact_url};
use serde::Deserialize;
use toml::Spanned;

use super::error::{ConfigError, Problem};
use super::rabbitmq::{Rabbit, RabbitTable};
use super::scalar::{Hidden, Switch};
use super::secret::{path, secret};
use super::url::{file_path, scheme};

/// The table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerTable {
    url: Option<Spanned<Hidden>>,
    url_file: Option<Spanned<PathBuf>>,
    user: Option<Spanned<String>>,
    password: Option<Spanned<Hidden>>,
    password_file: Option<Spanned<PathBuf>>,
    sync: Option<Spanned<Switch>>,
    rabbitmq: Option<Spanned<RabbitTable>>,
}

/// One broker.
#[derive(Clone, Debug)]
pub struct Broker {
    pub kind: Kind,
    /// Where its url stands in the configuration.
    pub span: Range<usize>,
    /// An error at that place, for whoever finds out later that the url cannot be used.
    pub place_of_url: Option<Box<ConfigError>>,
    /// For brokers with a login.
    pub user: Option<String>,
    /// For brokers with a login.
    pub password: Option<Secret>,
    /// Where the password came from, for brokers that read it again.
    #[cfg_attr(not(feature = "rabbitmq"), allow(dead_code))]
    pub password_file: Option<PathBuf>,
    /// Where the url came from, for brokers that read it again.
    #[cfg_attr(not(feature = "rabbitmq"), allow(dead_code))]
    pub url_file: Option<PathBuf>,
}

/// What kind of broker it is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// JSON lines, with an fsync before a message counts as confirmed unless that is switched off.
    File { path: PathBuf, sync: bool },
    /// JSON lines on standard output.
    Stdout,
    /// RabbitMQ.
    RabbitMq(Box<Rabbit>),
    /// Messages in this process, for trying things out.
    Memory,
    /// A broker of a kind that this build has no sink for.
    Other { scheme: String, url: Secret },
}

impl Kind {
    /// The address without a password.
    pub fn show(&self) -> String {
        match self {
            Kind::File { path, .. } if path.is_absolute() => format!("file://{}", path.display()),
            Kind::File { path, .. } => format!("file:{}", path.display()),
            Kind::Stdout => "stdout:".to_owned(),
            Kind::Memory => "memory:".to_owned(),
            Kind::RabbitMq(rabbit) => redact_url(rabbit.url.expose()),
            Kind::Other { url, .. } => redact_url(url.expose()),
        }
    }
}

impl BrokerTable {
    /// The files that hold its secrets.
    pub fn secret_files(&self) -> impl Iterator<Item = PathBuf> {
        [&self.url_file, &self.password_file]
            .into_iter()
            .flatten()
            .map(|file| file.get_ref().clone())
    }

    pub fn resolve(self, name: &Spanned<String>) -> Result<Broker, Problem> {
        let url_file = path(self.url_file.as_ref());
        let url = secret("url", self.url, self.url_file)?
            .ok_or_else(|| Problem::new("the key `url` is missing").at(name.span()))?;
        let sync = self.sync.as_ref().is_none_or(|sync| sync.get_ref().0);
        let mut kind = kind(url.get_ref(), sync).map_err(|problem| problem.at(url.span()))?;
        match (&kind, self.rabbitmq) {
            (Kind::Other { scheme, url }, given) if matches!(scheme.as_str(), "amqp" | "amqps") => {
                kind = Kind::RabbitMq(Box::new(RabbitTable::resolve(given, url)?));
            }
            (_, Some(given)) => {
                return Err(Problem::new("`rabbitmq` has the settings of RabbitMQ").at(given.span()));
            }
            (_, None) => {}
        }
        if let (Some(given), false) = (&self.sync, matches!(kind, Kind::File { .. })) {
            return Err(Problem::new("`sync` is a setting of file brokers").at(given.span()));
        }
        let login = self
            .user
            .as_ref()
            .map(Spanned::span)
            .or(self.password.as_ref().map(Spanned::span));
        let login = login.or(self.password_file.as_ref().map(Spanned::span));
        if let (Some(span), false) = (login, matches!(kind, Kind::Other { .. } | Kind::RabbitMq(_))) {
            return Err(Problem::new("this kind of broker has no login").at(span));
        }
        Ok(Broker {
            kind,
            span: url.span(),
            place_of_url: None,
            user: self.user.map(Spanned::into_inner),
            url_file,
            password_file: path(self.password_file.as_ref()),
            password: secret("password", self.password, self.password_file)?.map(Spanned::into_inner),
        })
    }
}

fn kind(url: &Secret, sync: bool) -> Result<Kind, Problem> {
    let text = url.expose();
    let Some(scheme) = scheme(text) else {
        let help = "for example \"file:events.jsonl\" or \"stdout:\"".to_owned();
        return Err(Problem::new("the url has no scheme").help(help));
    };
    let rest = &text[scheme.len() + 1..];
    match (scheme, rest) {
        ("file", rest) => file_path("file", rest).map(|path| Kind::File { path, sync }),
        ("stdout", "") => Ok(Kind::Stdout),
        ("memory", "") => Ok(Kind::Memory),
        ("stdout" | "memory", _) => Err(Problem::new(format!("nothing may follow `{scheme}:`"))),
        _ => Ok(Kind::Other {
            scheme: scheme.to_owned(),
            url: url.clone(),
        }),
    }
}
