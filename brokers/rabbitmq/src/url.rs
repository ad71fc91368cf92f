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
    if uri.authority.host.is_empty() {
        return Err(RabbitError::Url("it has no host".to_owned()));
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
