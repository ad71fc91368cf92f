//! `[notify.email]` and `[notify.push]`: what deliveries go through.

use std::path::PathBuf;
use std::time::Duration;

use postrider_core::Secret;
use postrider_notify::deliver::{EmailError, EmailOptions, EmailSink, PushOptions, PushSink, Security};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::config::error::Problem;
use crate::config::scalar::{Hidden, Switch, word};
use crate::config::secret::{path, secret};

/// `[notify.email]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmailTable {
    url: Option<Spanned<Hidden>>,
    url_file: Option<Spanned<PathBuf>>,
    password: Option<Spanned<Hidden>>,
    password_file: Option<Spanned<PathBuf>>,
    from: Spanned<String>,
    unsubscribe: Option<Spanned<String>>,
    security: Option<Spanned<SecurityWord>>,
    allow_plain: Option<Switch>,
    ca_file: Option<Spanned<PathBuf>>,
}

/// `[notify.push]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PushTable {
    secret: Option<Spanned<Hidden>>,
    secret_file: Option<Spanned<PathBuf>>,
    allow_private: Option<Switch>,
}

/// How mail is sent.
#[derive(Clone, Debug)]
pub struct Email {
    pub options: EmailOptions,
}

/// How urls are told.
#[derive(Clone, Debug)]
pub struct Push {
    pub options: PushOptions,
}

/// The words of a security.
const SECURITIES: [(&str, Security); 3] = [
    ("starttls", Security::StartTls),
    ("tls", Security::Tls),
    ("none", Security::None),
];

#[derive(Clone, Copy)]
struct SecurityWord(Security);

impl<'de> Deserialize<'de> for SecurityWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, &SECURITIES).map(Self)
    }
}

/// The word of a security.
pub fn security(given: Security) -> &'static str {
    let found = SECURITIES.iter().find(|(_, it)| *it == given);
    found.map_or("starttls", |(word, _)| word)
}

impl EmailTable {
    /// The files that hold its secrets.
    pub fn secret_files(&self) -> impl Iterator<Item = PathBuf> {
        [&self.url_file, &self.password_file]
            .into_iter()
            .filter_map(|file| path(file.as_ref()))
    }

    /// Checks everything but whether the server is there. No call may outlast the time that the relay gives it.
    pub fn resolve(
        table: Spanned<Self>,
        limit: Duration,
        signing: Option<&Secret>,
    ) -> Result<Email, Problem> {
        let span = table.span();
        let table = table.into_inner();
        let missing = || Problem::new("the key `url` is missing").at(span.clone());
        let url = secret("url", table.url, table.url_file)?.ok_or_else(missing)?;
        let server = Server::parse(url.get_ref().expose()).map_err(|text| {
            let help =
                "for example \"smtp://user@mail.example.com:587\", or smtps:// for TLS from the first byte";
            Problem::new(text).at(url.span()).help(help.to_owned())
        })?;
        let password = secret("password", table.password, table.password_file)?.map(Spanned::into_inner);
        let from = table.from.span();
        let unsubscribe = table.unsubscribe.as_ref().map(Spanned::span);
        let ca_file = table.ca_file.as_ref().map(Spanned::span);
        let mut options = EmailOptions::new(server.host, table.from.into_inner());
        options.port = server.port;
        options.security = table.security.map_or(server.security, |word| word.into_inner().0);
        options.allow_plain = table.allow_plain.is_some_and(|switch| switch.0);
        options.user = server.user;
        options.password = password.or(server.password);
        if options.user.is_some() != options.password.is_some() {
            let text = "a login has a user in the url and a password: give both, or none";
            return Err(Problem::new(text).at(url.span()));
        }
        if let Some(file) = table.ca_file {
            options = options.ca_file(file.into_inner());
        }
        if let Some(unsubscribe) = table.unsubscribe {
            if unsubscribe.get_ref().contains("{signature}") && signing.is_none() {
                let text = "{signature} is made with the `secret` of [notify], and there is none";
                let help = "set `secret_file` in [notify] to a file with a long random text".to_owned();
                return Err(Problem::new(text).at(unsubscribe.span()).help(help));
            }
            options = options.unsubscribe(unsubscribe.into_inner());
            options.unsubscribe_secret = signing.cloned();
        }
        // A batch and two letters that take their time are over before the relay gives the call up: what was sent by
        // then would be sent again.
        options.batch_time = options.batch_time.min(limit / 6);
        options.timeout = options.timeout.min(limit * 2 / 5);
        EmailSink::new(options.clone()).map_err(|error| {
            let at = match error {
                EmailError::Unsubscribe(_) => unsubscribe,
                EmailError::CaFile { .. } => ca_file,
                EmailError::Plain(_) => Some(url.span()),
                _ => None,
            };
            Problem::new(error.to_string()).at(at.unwrap_or(from))
        })?;
        Ok(Email { options })
    }
}

impl PushTable {
    /// The file that holds its secret.
    pub fn secret_file(&self) -> Option<PathBuf> {
        path(self.secret_file.as_ref())
    }

    pub fn resolve(table: Spanned<Self>, limit: Duration) -> Result<Push, Problem> {
        let span = table.span();
        let table = table.into_inner();
        let missing = || Problem::new("the key `secret` is missing: calls are signed with it").at(span);
        let secret = secret("secret", table.secret, table.secret_file)?.ok_or_else(missing)?;
        let at = secret.span();
        let mut options = PushOptions::new(secret.into_inner());
        options.allow_private = table.allow_private.is_some_and(|switch| switch.0);
        options.timeout = options.timeout.min(limit / 3);
        options.batch_time = options.batch_time.min(limit / 3);
        PushSink::new(options.clone()).map_err(|error| Problem::new(error.to_string()).at(at))?;
        Ok(Push { options })
    }
}

/// The parts of the url of a mail server.
#[derive(Debug)]
struct Server {
    host: String,
    port: Option<u16>,
    security: Security,
    user: Option<String>,
    password: Option<Secret>,
}

impl Server {
    /// Errors never repeat the url: it may have a password in it.
    fn parse(url: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = url.split_once("://").ok_or("the url has no scheme")?;
        let security = match scheme {
            "smtp" => Security::StartTls,
            "smtps" => Security::Tls,
            _ => return Err("the url of a mail server begins with smtp:// or smtps://"),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#']) {
            return Err("the url of a mail server ends with its port");
        }
        let (login, place) = rest
            .rsplit_once('@')
            .map_or((None, rest), |(login, place)| (Some(login), place));
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            None => (None, None),
            Some((user, password)) => (Some(decoded(user)?), Some(decoded(password)?)),
        };
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let port = port
                    .parse()
                    .map_err(|_| "the port of the url is not a number up to 65535")?;
                (host, Some(port))
            }
            _ => (place, None),
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err("the url has no host");
        }
        let password = password.filter(|text| !text.is_empty()).map(Secret::new);
        Ok(Self {
            host,
            port,
            security,
            user,
            password,
        })
    }
}

/// Text in which `%40` stands for `@`.
fn decoded(text: &str) -> Result<String, &'static str> {
    let wrong = "a percent sign in the login of the url is not followed by two hexadecimal digits of UTF-8";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || {
            rest.next()
                .and_then(|byte| char::from(byte).to_digit(16))
                .ok_or(wrong)
        };
        bytes.push(match byte {
            b'%' => u8::try_from(digit()? * 16 + digit()?).map_err(|_| wrong)?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> (String, Option<u16>, Security, Option<String>, Option<String>) {
        let it = Server::parse(url).unwrap();
        let password = it.password.map(|secret| secret.expose().to_owned());
        (it.host, it.port, it.security, it.user, password)
    }

    #[test]
    fn the_url_of_a_server_has_its_login_host_and_port() {
        let text = |text: &str| Some(text.to_owned());
        let host = |text: &str| text.to_owned();
        for (url, parts) in [
            (
                "smtp://mail.example.com",
                (host("mail.example.com"), None, Security::StartTls, None, None),
            ),
            (
                "smtps://u%40x@h:465/",
                (host("h"), Some(465), Security::Tls, text("u@x"), None),
            ),
            (
                "smtp://u:p%3a@h:25",
                (host("h"), Some(25), Security::StartTls, text("u"), text("p:")),
            ),
            (
                "smtp://[::1]:1025",
                (host("::1"), Some(1025), Security::StartTls, None, None),
            ),
            (
                "smtp://[::1]",
                (host("::1"), None, Security::StartTls, None, None),
            ),
        ] {
            assert_eq!(server(url), parts, "{url}");
        }
    }

    #[test]
    fn what_is_no_server_is_refused_without_being_repeated() {
        for url in [
            "mail",
            "http://h",
            "smtp://",
            "smtp://u:s3cret@h:x",
            "smtp://s3cret%zz@h",
            "smtp://h/s3cret",
        ] {
            let text = Server::parse(url).unwrap_err();
            assert!(!text.contains("s3cret"), "{text}");
        }
    }
}
