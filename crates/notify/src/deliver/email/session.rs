//! The dialogue with a server of mail.

use std::fmt::Display;
use std::time::Duration;

use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use lettre::transport::smtp::response::Response;
use postrider_core::{Answer, ErrorKind, Failure, Receipt, Secret};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::answer::{self, Stage};
use super::letter::Letter;
use super::options::{EmailError, EmailOptions, Security};

/// How long a server may take for what costs it nothing: to say that it is there, and to forget a letter.
const MOMENT: Duration = Duration::from_secs(2);

/// Makes connections, and hands letters in.
pub(super) struct Doorway {
    host: String,
    port: u16,
    security: Security,
    tls: Option<TlsParameters>,
    login: Option<(String, Secret)>,
    hello: ClientId,
    timeout: Duration,
}

/// A connection over which letters can be handed in.
pub(super) struct Session {
    connection: AsyncSmtpConnection,
    stage: Stage,
    broken: bool,
}

impl Doorway {
    pub(super) fn new(options: &EmailOptions) -> Result<Self, EmailError> {
        let (host, port) = options.server();
        if options.security == Security::None && !options.may_be_plain() {
            return Err(EmailError::Plain(host.to_owned()));
        }
        let tls = match options.security {
            Security::None => None,
            Security::StartTls | Security::Tls => Some(tls(options)?),
        };
        let login = options
            .user
            .clone()
            .map(|user| (user, options.password.clone().unwrap_or_else(|| Secret::new(""))));
        Ok(Self {
            host: host.to_owned(),
            port,
            security: options.security,
            tls,
            login,
            hello: options.hello.clone().map(ClientId::Domain).unwrap_or_default(),
            timeout: options.timeout,
        })
    }

    /// A new connection, protected and logged in.
    pub(super) async fn open(&self) -> Result<Session, Failure> {
        match timeout(self.timeout, Box::pin(self.greet())).await {
            Ok(opened) => opened,
            Err(_) => {
                let text = format!("{} did not answer within {:?}", self.host, self.timeout);
                Err(Failure::new(ErrorKind::TimedOut, text))
            }
        }
    }

    async fn greet(&self) -> Result<Session, Failure> {
        let failed = |stage| move |error: Error| self.failure(stage, &error);
        let mut connection = self.connect().await?;
        if let (Security::StartTls, Some(tls)) = (self.security, self.tls.clone()) {
            // The server's word is not taken for it: a mail that must be protected does not go where it is not.
            let starting = connection.starttls(tls, &self.hello);
            starting.await.map_err(failed(Stage::Tls))?;
        }
        if let Some((user, password)) = &self.login {
            let login = Credentials::new(user.clone(), password.expose().to_owned());
            let logging_in = connection.auth(&[Mechanism::Plain, Mechanism::Login], &login);
            logging_in.await.map_err(failed(Stage::Login))?;
        }
        Ok(Session {
            connection,
            stage: Stage::Sender,
            broken: false,
        })
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, Failure> {
        let server = (self.host.trim_matches(['[', ']']), self.port);
        let connected = match (self.security, &self.tls) {
            (Security::Tls, Some(tls)) => {
                let (limit, tls) = (Some(self.timeout), Some(tls.clone()));
                AsyncSmtpConnection::connect_tokio1(server, limit, &self.hello, tls, None).await
            }
            _ => {
                let away = |error| {
                    let text = format!("{} cannot be reached: {error}", self.host);
                    Failure::new(ErrorKind::Unreachable, text)
                };
                let stream = TcpStream::connect(server).await.map_err(away)?;
                // The end of a letter is a write of its own. Held back until the letter is acknowledged, it would cost
                // each of them the time that the server waits with that.
                stream.set_nodelay(true).map_err(away)?;
                AsyncSmtpConnection::connect_with_transport(Box::new(stream), &self.hello).await
            }
        };
        connected.map_err(|error| self.failure(Stage::Greeting, &error))
    }

    /// Whether a connection that was kept still is one.
    pub(super) async fn is_alive(&self, session: &mut Session) -> bool {
        matches!(timeout(MOMENT, session.say(Stage::Sender, Rset)).await, Ok(Ok(_)))
    }

    /// Hands a letter in. After a refusal the connection can be used for the next.
    pub(super) async fn hand_in(&self, session: &mut Session, letter: &Letter) -> Answer {
        let failed = match timeout(self.timeout, Box::pin(session.hand_in(letter))).await {
            Ok(Ok(response)) => {
                let said: Vec<&str> = response.message().collect();
                let said = postrider_core::inert(&said.join(" "), MAX_RECEIPT);
                return Answer::Confirmed(Receipt(Some(said)));
            }
            Ok(Err(NotHandedIn::Unfit(text))) => Failure::new(ErrorKind::NotEncodable, text),
            Ok(Err(NotHandedIn::Failed(error))) => {
                session.broken |= error.status().is_none() || answer::ends(&error);
                self.failure(session.stage, &error)
            }
            Err(_) => {
                session.broken = true;
                let text = format!("{} did not answer within {:?}", self.host, self.timeout);
                answer::unclear(session.stage, Failure::new(ErrorKind::TimedOut, text))
            }
        };
        if !session.broken && !matches!(timeout(MOMENT, session.reset()).await, Ok(true)) {
            session.broken = true;
        }
        Answer::Failed(failed)
    }

    /// The words of a server are its own; should it repeat the password, they are not kept.
    fn failure(&self, stage: Stage, error: &Error) -> Failure {
        let mut failure = answer::failure(stage, error, &self.host);
        let secret = self.login.as_ref().map(|(_, password)| password.expose());
        if secret.is_some_and(|secret| !secret.is_empty() && failure.text.contains(secret)) {
            failure.text = "the server's answer is not shown, because it repeats the password".into();
        }
        failure
    }
}

/// The longest receipt: servers answer with an id of some dozen characters.
const MAX_RECEIPT: usize = 200;

enum NotHandedIn {
    /// The server cannot be told this address.
    Unfit(&'static str),
    Failed(Error),
}

impl From<Error> for NotHandedIn {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Session {
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(super) async fn quit(&mut self) {
        let _ = self.connection.quit().await;
    }

    async fn hand_in(&mut self, letter: &Letter) -> Result<Response, NotHandedIn> {
        let mut parameters = Vec::new();
        if !AsRef::<str>::as_ref(&letter.to).is_ascii() || !AsRef::<str>::as_ref(&letter.from).is_ascii() {
            if !self
                .connection
                .server_info()
                .supports_feature(Extension::SmtpUtfEight)
            {
                return Err(NotHandedIn::Unfit(
                    "the address has letters beyond ASCII, and the server does not take such addresses (SMTPUTF8)",
                ));
            }
            parameters.push(MailParameter::SmtpUtfEight);
        }
        self.say(Stage::Sender, Mail::new(Some(letter.from.clone()), parameters))
            .await?;
        self.say(Stage::Recipient, Rcpt::new(letter.to.clone(), Vec::new()))
            .await?;
        self.say(Stage::Data, Data).await?;
        self.stage = Stage::Content;
        Ok(self.connection.message(&letter.content).await?)
    }

    /// Forgets the letter that was refused; false when the connection does not even do that.
    async fn reset(&mut self) -> bool {
        self.say(Stage::Sender, Rset).await.is_ok()
    }

    async fn say(&mut self, stage: Stage, command: impl Display) -> Result<Response, Error> {
        self.stage = stage;
        self.connection.command(command).await
    }
}

fn tls(options: &EmailOptions) -> Result<TlsParameters, EmailError> {
    let path = options.ca_file.clone().unwrap_or_default();
    let unusable = |reason: String| EmailError::CaFile {
        path: path.clone(),
        reason,
    };
    let mut tls = TlsParameters::builder(options.host.trim_matches(['[', ']']).to_owned());
    if let Some(file) = &options.ca_file {
        let pem = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
        let authority = Certificate::from_pem(&pem).map_err(|error| unusable(error.to_string()))?;
        tls = tls.add_root_certificate(authority);
    }
    tls.build().map_err(|error| unusable(error.to_string()))
}
