//! The dialogue with a server of mail.

use std::fmt::Display;
use std::pin::Pin;
use std::time::Duration;

use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use lettre::transport::smtp::response::Response;
use postrider_core::{Answer, ErrorKind, Failure, Receipt, Secret};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

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

/// How handing a letter in ended.
pub(super) enum Outcome {
    /// The server said what became of it, or nothing was handed over.
    Answered(Answer),
    /// The content was handed over and nothing came back, for this reason: the server may have taken the letter. Where
    /// the connection is still there, the answer may come yet.
    Unanswered(String, Option<Waiting>),
}

/// The answer to content that was handed over, on a connection that waits for nothing else.
pub(super) type Waiting = Pin<Box<dyn Future<Output = (Session, Answered)> + Send>>;

/// What a server said to the content, or why it said nothing.
pub(super) type Answered = Result<Response, Error>;

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
            Err(_) => Err(Failure::new(ErrorKind::TimedOut, self.silent())),
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

    /// Hands a letter in. After an answer the connection can be used for the next, unless that ended it.
    pub(super) async fn hand_in(&self, mut session: Session, letter: Letter) -> (Option<Session>, Outcome) {
        let until = Instant::now() + self.timeout;
        let failure = match timeout_at(until, Box::pin(session.offer(&letter))).await {
            Ok(Ok(())) => return self.content(session, letter, until).await,
            Ok(Err(NotTaken::Unfit(text))) => Failure::new(ErrorKind::NotEncodable, text),
            Ok(Err(NotTaken::Failed(error))) => {
                session.broken |= error.status().is_none() || answer::ends(&error);
                self.failure(session.stage, &error)
            }
            Err(_) => {
                session.broken = true;
                Failure::new(ErrorKind::TimedOut, self.silent())
            }
        };
        let session = session.after_refusal().await;
        (session, Outcome::Answered(Answer::Failed(failure)))
    }

    async fn content(
        &self,
        mut session: Session,
        letter: Letter,
        until: Instant,
    ) -> (Option<Session>, Outcome) {
        let mut waiting: Waiting = Box::pin(async move {
            let answered = session.connection.message(&letter.content).await;
            (session, answered)
        });
        let Ok((session, answered)) = timeout_at(until, &mut waiting).await else {
            return (None, Outcome::Unanswered(self.silent(), Some(waiting)));
        };
        match self.said(&answered) {
            Ok(answer @ Answer::Confirmed(_)) => (Some(session), Outcome::Answered(answer)),
            Ok(answer) => {
                let ends = answered.is_err_and(|error| answer::ends(&error));
                let session = Session {
                    broken: session.broken || ends,
                    ..session
                };
                (session.after_refusal().await, Outcome::Answered(answer))
            }
            Err(why) => (None, Outcome::Unanswered(why, None)),
        }
    }

    /// What a server's answer to the content means; an error where it gave none.
    pub(super) fn said(&self, answered: &Answered) -> Result<Answer, String> {
        match answered {
            Ok(response) => {
                let said: Vec<&str> = response.message().collect();
                let said = postrider_core::inert(&said.join(" "), MAX_RECEIPT);
                Ok(Answer::Confirmed(Receipt(Some(said))))
            }
            Err(error) if error.status().is_some() => Ok(Answer::Failed(self.failure(Stage::Content, error))),
            Err(error) => Err(self.failure(Stage::Content, error).text.into()),
        }
    }

    fn silent(&self) -> String {
        format!("{} did not answer within {:?}", self.host, self.timeout)
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

enum NotTaken {
    /// The server cannot be told this address.
    Unfit(&'static str),
    Failed(Error),
}

impl From<Error> for NotTaken {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Session {
    pub(super) async fn quit(&mut self) {
        let _ = self.connection.quit().await;
    }

    /// All that comes before the content.
    async fn offer(&mut self, letter: &Letter) -> Result<(), NotTaken> {
        let mut parameters = Vec::new();
        if !AsRef::<str>::as_ref(&letter.to).is_ascii() || !AsRef::<str>::as_ref(&letter.from).is_ascii() {
            if !self
                .connection
                .server_info()
                .supports_feature(Extension::SmtpUtfEight)
            {
                return Err(NotTaken::Unfit(
                    "the address has letters beyond ASCII, and the server does not take such addresses (SMTPUTF8)",
                ));
            }
            parameters.push(MailParameter::SmtpUtfEight);
        }
        // What is refused then is the recipient's address, although it is not named yet.
        let stage = match parameters.is_empty() {
            true => Stage::Sender,
            false => Stage::Recipient,
        };
        self.say(stage, Mail::new(Some(letter.from.clone()), parameters))
            .await?;
        self.say(Stage::Recipient, Rcpt::new(letter.to.clone(), Vec::new()))
            .await?;
        self.say(Stage::Data, Data).await?;
        self.stage = Stage::Content;
        Ok(())
    }

    /// Forgets the letter that was refused; None when the connection does not even do that.
    async fn after_refusal(mut self) -> Option<Session> {
        if self.broken {
            return None;
        }
        let forgotten = timeout(MOMENT, self.say(Stage::Sender, Rset)).await;
        matches!(forgotten, Ok(Ok(_))).then_some(self)
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
