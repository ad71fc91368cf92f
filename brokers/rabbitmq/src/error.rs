//! What goes wrong with RabbitMQ, in the words of the engine.

use postrider_core::{ErrorKind, Failure};

/// Options that cannot be used. An unreachable broker is not among them: it may come back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RabbitError {
    /// The url is not one of a RabbitMQ. The url itself is left out, because it may hold a password.
    #[error("the url of the broker cannot be used: {0}")]
    Url(String),
    /// The name of a queue is too long for the protocol.
    #[error("the name of the queue has {0} bytes, AMQP takes 255")]
    Queue(usize),
    /// The file with the certificate authorities cannot be used.
    #[error("the certificate authorities in {path:?} cannot be used: {reason}")]
    Authorities {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Why there is no connection.
pub(crate) fn connecting(error: &lapin::Error) -> Failure {
    let kind = match code(error) {
        // A wrong password, or a user who may not use this virtual host.
        Some(403 | 530) => ErrorKind::Credentials,
        _ => ErrorKind::Unreachable,
    };
    Failure::new(kind, words(error))
}

/// Why a channel ended, as far as one message can be blamed for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// There is no such exchange.
    NoExchange(Option<String>),
    /// We may not publish to this exchange.
    Refused(Option<String>),
    /// A message was larger than the broker takes.
    TooLarge(Option<usize>),
    /// The broker named something else about a message.
    Content(String),
    /// It was not about a message: the connection or the broker ended.
    Lost(String),
}

impl Cause {
    pub(crate) fn of(error: &lapin::Error) -> Cause {
        let text = words(error);
        match code(error) {
            Some(404) => Cause::NoExchange(quoted(&text)),
            Some(403) => Cause::Refused(quoted(&text)),
            Some(311) => Cause::TooLarge(None),
            Some(406) if text.contains("message size") => Cause::TooLarge(last_number(&text)),
            Some(406) => Cause::Content(text),
            _ => Cause::Lost(text),
        }
    }
}

/// The broker's own words, or those of the network.
pub(crate) fn words(error: &lapin::Error) -> String {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(error) => error.get_message().to_string(),
        lapin::ErrorKind::IOError(error) => error.to_string(),
        _ => error.to_string(),
    }
}

/// The reply code of an AMQP error.
pub(crate) fn code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}

/// The first name in quotes, as in `no exchange 'orders' in vhost '/'`.
fn quoted(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("exchange '")?;
    let (name, _) = rest.split_once("' in vhost").or_else(|| rest.split_once('\''))?;
    Some(name.to_owned())
}

/// The limit in `message size 4096 is larger than configured max size 1024`.
fn last_number(text: &str) -> Option<usize> {
    let is_digit = |c: char| c.is_ascii_digit();
    text.split(|c| !is_digit(c))
        .rfind(|part| !part.is_empty())?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPSoftError};

    use super::*;

    fn soft(kind: AMQPSoftError, text: &str) -> lapin::Error {
        let error = AMQPError::new(AMQPErrorKind::Soft(kind), text.into());
        lapin::ErrorKind::ProtocolError(error).into()
    }

    #[test]
    fn the_broker_names_what_it_objects_to() {
        let missing = soft(
            AMQPSoftError::NOTFOUND,
            "NOT_FOUND - no exchange 'it's' in vhost 'a'",
        );
        assert_eq!(Cause::of(&missing), Cause::NoExchange(Some("it's".to_owned())));
        let refused = soft(
            AMQPSoftError::ACCESSREFUSED,
            "ACCESS_REFUSED - write access to exchange 'x' in vhost '/' refused for user 'u'",
        );
        assert_eq!(Cause::of(&refused), Cause::Refused(Some("x".to_owned())));
        let large = "PRECONDITION_FAILED - message size 4096 is larger than configured max size 1024";
        assert_eq!(
            Cause::of(&soft(AMQPSoftError::PRECONDITIONFAILED, large)),
            Cause::TooLarge(Some(1024))
        );
    }

    #[test]
    fn a_login_that_is_refused_is_about_credentials() {
        let refused = soft(AMQPSoftError::ACCESSREFUSED, "ACCESS_REFUSED - Login was refused");
        assert_eq!(connecting(&refused).kind, ErrorKind::Credentials);
        let io = lapin::Error::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
        assert_eq!(connecting(&io).kind, ErrorKind::Unreachable);
    }
}
