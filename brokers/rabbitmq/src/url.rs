//! The url of a broker.

use lapin::uri::AMQPUri;

use crate::RabbitOptions;
use crate::error::RabbitError;

/// Reads the url, with the login and the heartbeat of the options in place of its own.
pub(crate) fn parse(options: &RabbitOptions) -> Result<AMQPUri, RabbitError> {
    let text = options.url.expose();
    let mut uri: AMQPUri = text.parse().map_err(|_| {
        // The parser repeats the url in its errors, password and all.
        RabbitError::Url(
            "write amqp://user@host:port/vhost or amqps://…, special characters as %XX".to_owned(),
        )
    })?;
    // The parser takes only names for hosts, and would connect to this very machine instead.
    if let Some(address) = bracketed(text) {
        uri.authority.host = address.to_owned();
    }
    if uri.authority.host.is_empty() || !names_host(text) {
        return Err(RabbitError::Url("it has no host".to_owned()));
    }
    if path(text).contains('/') {
        let text = "a virtual host is one part of the path; write a slash in its name as %2F";
        return Err(RabbitError::Url(text.to_owned()));
    }
    // By the letter of the specification `amqp://host/` means a virtual host without a name, which nobody has.
    if uri.vhost.is_empty() {
        uri.vhost = "/".to_owned();
    }
    if let Some(user) = &options.user {
        uri.authority.userinfo.username = user.clone();
    }
    if let Some(password) = &options.password {
        uri.authority.userinfo.password = password.expose().to_owned();
    }
    let seconds = options.heartbeat.as_secs().clamp(1, u64::from(u16::MAX));
    uri.query.heartbeat = Some(u16::try_from(seconds).unwrap_or(u16::MAX));
    Ok(uri)
}

/// Whether a host is written down. The parser fills one in, so that a slip would connect to this very machine.
fn names_host(url: &str) -> bool {
    let host = url.split_once("://").map_or("", |(_, rest)| rest);
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    !host.is_empty() && !host.starts_with(':')
}

/// What stands behind the first slash of a url.
fn path(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    rest.split_once('/').map_or("", |(_, path)| path)
}

/// The IPv6 address of a url such as `amqp://user@[::1]:5672/`.
fn bracketed(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    host.strip_prefix('[')?.split(']').next()
}

#[cfg(test)]
mod tests {
    use postrider_core::Secret;

    use super::*;

    fn parsed(url: &str) -> AMQPUri {
        parse(&RabbitOptions::new(url)).expect("a good url")
    }

    #[test]
    fn hosts_and_virtual_hosts_are_what_people_mean() {
        let uri = parsed("amqp://u:p%40ss@mq.internal:1/orders%2Feu");
        assert_eq!(uri.authority.host, "mq.internal");
        assert_eq!(uri.authority.userinfo.password, "p@ss");
        assert_eq!(uri.vhost, "orders/eu");
        assert_eq!(parsed("amqp://127.0.0.1").vhost, "/");
        assert_eq!(parsed("amqps://mq/").vhost, "/");
        assert_eq!(parsed("amqp://u@[::1]:7/").authority.host, "::1");
        assert_eq!(parsed("amqp://10.1.2.3/").authority.host, "10.1.2.3");
    }

    #[test]
    fn the_options_win_over_the_url() {
        let options =
            RabbitOptions::new("amqp://a:b@h/").login(Some("relay".to_owned()), Some(Secret::new("s3")));
        let uri = parse(&options).unwrap();
        let login = uri.authority.userinfo;
        assert_eq!(
            (login.username.as_str(), login.password.as_str()),
            ("relay", "s3")
        );
        assert_eq!(uri.query.heartbeat, Some(10));
    }

    #[test]
    fn a_slip_is_not_this_very_machine_or_the_first_virtual_host() {
        for bad in [
            "amqp://",
            "amqp:///v",
            "amqp://u:p@/v",
            "amqp://:5672/",
            "amqp://h:99999/",
            "amqp://h/a/b",
        ] {
            assert!(parse(&RabbitOptions::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_error_does_not_repeat_the_url() {
        for bad in [
            "amqp//u:hunter2@h",
            "http://u:hunter2@h/",
            "amqp://u:hunter2@h:port/",
        ] {
            let error = parse(&RabbitOptions::new(bad)).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
