//! URLs without their secrets.

use crate::secret::HIDDEN;

/// A URL that may be printed: scheme, user, host, path and harmless parameters stay, everything else becomes `***`.
///
/// What stays is what is known to be harmless; a URL that is malformed in any way keeps its scheme at most. A password
/// with a bare `@`, `/`, `?` or `#` in it makes a URL that parsers cut at the wrong place, and that is where secrets
/// leak. The paths of `http` URLs are hidden too, because the addresses of webhooks carry their token there.
///
/// ```
/// use postrider_core::redact_url;
///
/// let shown = redact_url("postgres://relay:s3cret@db/orders?sslmode=require");
/// assert_eq!(shown, "postgres://relay:***@db/orders?sslmode=require");
/// assert_eq!(redact_url("postgres://db/orders?password=s3cret"), "postgres://db/orders?password=***");
/// assert_eq!(redact_url("postgres://relay:s3/cr@et@db/orders"), "postgres://***");
/// ```
pub fn redact_url(url: &str) -> String {
    let Some((scheme, rest)) = split_scheme(url) else {
        return if is_file_path(url) {
            url.to_owned()
        } else {
            HIDDEN.to_owned()
        };
    };
    let redacted = match rest.strip_prefix("//") {
        Some(rest) => hierarchical(scheme, rest).map(|rest| format!("//{rest}")),
        None => opaque(scheme, rest),
    };
    match redacted {
        Some(rest) => format!("{scheme}:{rest}"),
        None if rest.starts_with("//") => format!("{scheme}://{HIDDEN}"),
        None => HIDDEN.to_owned(),
    }
}

/// Everything behind `scheme://`; none when its parts cannot be told apart with certainty.
fn hierarchical(scheme: &str, rest: &str) -> Option<String> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    // An @ further on may belong to a password that was not percent-encoded.
    if tail.contains('@') {
        return None;
    }
    let (user, hosts) = match authority.split_once('@') {
        Some((user, hosts)) => (Some(user), hosts),
        None => (None, authority),
    };
    if !hosts.split(',').all(is_host) {
        return None;
    }
    let user = user
        .map(|user| redact_user(scheme, user) + "@")
        .unwrap_or_default();
    Some(format!("{user}{hosts}{}", redact_tail(scheme, tail)?))
}

/// `sqlite:path?query`: the only URLs without an authority that are worth showing.
fn opaque(scheme: &str, rest: &str) -> Option<String> {
    let known = matches!(scheme, "sqlite" | "file");
    if known && !rest.contains('@') {
        redact_tail(scheme, rest)
    } else {
        None
    }
}

fn redact_tail(scheme: &str, tail: &str) -> Option<String> {
    let (tail, fragment) = match tail.split_once('#') {
        Some((tail, _)) => (tail, format!("#{HIDDEN}")),
        None => (tail, String::new()),
    };
    let (path, query) = match tail.split_once('?') {
        Some((path, query)) => (path, format!("?{}", redact_query(query))),
        None => (tail, String::new()),
    };
    let path = match scheme {
        "http" | "https" | "ws" | "wss" if path.len() > 1 => format!("/{HIDDEN}"),
        _ if path.chars().all(is_path_character) => path.to_owned(),
        _ => return None,
    };
    Some(format!("{path}{query}{fragment}"))
}

/// The user stays where a user is a name. A user without a password is a token at several brokers.
fn redact_user(scheme: &str, user: &str) -> String {
    const NAMED: [&str; 7] = [
        "postgres",
        "postgresql",
        "mysql",
        "mariadb",
        "mongodb",
        "mongodb+srv",
        "amqp",
    ];
    let named = NAMED.contains(&scheme) || scheme == "amqps";
    // A percent sign may hide a colon, and with it a password.
    let plain = |name: &str| {
        name.chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    match user.split_once(':') {
        Some((name, _)) if plain(name) => format!("{name}:{HIDDEN}"),
        None if named && plain(user) => user.to_owned(),
        _ => HIDDEN.to_owned(),
    }
}

/// Names stay, values stay only for parameters that are known to be harmless.
fn redact_query(query: &str) -> String {
    let parameter = |text: &str| match text.split_once('=') {
        Some((name, value)) if is_harmless(name) && value.chars().all(is_path_character) => {
            format!("{name}={value}")
        }
        Some((name, _)) if name.chars().all(|c| c.is_ascii_alphabetic() || c == '_') => {
            format!("{name}={HIDDEN}")
        }
        _ => HIDDEN.to_owned(),
    };
    query.split('&').map(parameter).collect::<Vec<_>>().join("&")
}

fn is_harmless(parameter: &str) -> bool {
    const HARMLESS: [&str; 22] = [
        "application_name",
        "authsource",
        "cache",
        "channel_binding",
        "connect_timeout",
        "connection_timeout",
        "directconnection",
        "frame_max",
        "heartbeat",
        "immutable",
        "keepalives",
        "mode",
        "readpreference",
        "replicaset",
        "retrywrites",
        "ssl-mode",
        "sslmode",
        "target_session_attrs",
        "tcp_user_timeout",
        "tls",
        "vfs",
        "w",
    ];
    HARMLESS.iter().any(|known| known.eq_ignore_ascii_case(parameter))
}

fn split_scheme(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once(':')?;
    let well_formed = scheme.len() <= 20
        && scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c));
    well_formed.then_some((scheme, rest))
}

/// A name or an address, and a port that is a number: `pa$$word` behind a colon is not one.
fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, ""),
    };
    let bracketed = name.starts_with('[') && name.ends_with(']');
    name.chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-%".contains(c) || (bracketed && "[:]".contains(c)))
        && port.len() <= 5
        && port.chars().all(|c| c.is_ascii_digit())
}

fn is_path_character(c: char) -> bool {
    c.is_alphanumeric() || "/._-%~+,".contains(c)
}

fn is_file_path(text: &str) -> bool {
    let looks_like_one = text.starts_with(['/', '.'])
        || [".db", ".sqlite", ".sqlite3"]
            .iter()
            .any(|end| text.ends_with(end));
    looks_like_one && text.chars().all(is_path_character)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::redact_url;

    const CANARY: &str = "CaNaRy";

    #[test]
    fn well_formed_urls_keep_what_is_useful() {
        for (url, shown) in [
            ("postgres://relay@db/orders", "postgres://relay@db/orders"),
            (
                "postgres://relay:CaNaRy@db:5432/orders",
                "postgres://relay:***@db:5432/orders",
            ),
            ("postgres://:CaNaRy@[::1]:5432/a", "postgres://:***@[::1]:5432/a"),
            ("postgres://a:CaNaRy%40%2f@db", "postgres://a:***@db"),
            ("postgres://a%3aCaNaRy@db", "postgres://***@db"),
            (
                "postgres://db/a?sslmode=require&sslpassword=CaNaRy",
                "postgres://db/a?sslmode=require&sslpassword=***",
            ),
            (
                "postgres://db/a?p%61ssword=CaNaRy&CaNaRy",
                "postgres://db/a?***&***",
            ),
            (
                "postgres://db/a?options=-c%20x=CaNaRy",
                "postgres://db/a?options=***",
            ),
            ("postgres://%2Fvar%2Frun/a", "postgres://%2Fvar%2Frun/a"),
            (
                "mongodb://u:CaNaRy@a:1,b:2/db?replicaSet=rs0",
                "mongodb://u:***@a:1,b:2/db?replicaSet=rs0",
            ),
            ("amqps://mq/%2f?heartbeat=10", "amqps://mq/%2f?heartbeat=10"),
            ("nats://CaNaRy@mq:4222", "nats://***@mq:4222"),
            ("redis://:CaNaRy@cache/0#CaNaRy", "redis://:***@cache/0#***"),
            (
                "https://hooks.example/services/CaNaRy?token=CaNaRy",
                "https://hooks.example/***?token=***",
            ),
            ("https://hooks.example/", "https://hooks.example/"),
            ("sqlite:orders.db?mode=rwc", "sqlite:orders.db?mode=rwc"),
            (
                "sqlite:///var/lib/orders.db?key=CaNaRy",
                "sqlite:///var/lib/orders.db?key=***",
            ),
            ("/var/lib/orders.db", "/var/lib/orders.db"),
            ("orders.db", "orders.db"),
        ] {
            assert_eq!(redact_url(url), shown);
        }
    }

    #[test]
    fn malformed_urls_show_nothing() {
        for url in [
            "postgres://u:Ca/CaNaRy@db/a",
            "postgres://u:x@CaNaRy@db/a",
            "postgres://u:x?CaNaRy@db",
            "postgres://u:x#CaNaRy@db",
            "postgres://u:CaNaRy",
            "postgres://u:CaNaRy db/a",
            "postgres://db/a b CaNaRy",
            "host=db user=relay password=CaNaRy",
            "postgres:u:CaNaRy@db",
            "postgres:/u:CaNaRy@db",
            " postgres://u:CaNaRy@db",
            "CaNaRy",
            "CaNaRy@db",
            "orders.db?key=CaNaRy",
            "",
        ] {
            let shown = redact_url(url);
            assert!(shown == "***" || shown == "postgres://***", "{url} gives {shown}");
        }
    }

    proptest! {
        #[test]
        fn a_password_never_leaks(
            scheme in "postgres|amqp|redis|nats|https|mongodb\\+srv|x",
            user in "[a-z:/@?#%]{0,4}",
            before in "[!-~ é]{0,4}",
            after in "[!-~ é]{0,4}",
            tail in "(/[a-z]{0,3})?(\\?[a-z]{1,3}=[a-z]{1,2})?",
        ) {
            let shown = redact_url(&format!("{scheme}://{user}:{before}{CANARY}{after}@host{tail}"));
            prop_assert!(!shown.contains(CANARY), "{shown}");
        }

        #[test]
        fn a_parameter_never_leaks(
            name in "password|sslpassword|token|api_key|secret|sslkey|p%61ssword|[a-z%]{3,9}word",
            before in "[!-~]{0,4}",
            lead in "(a=b&){0,2}",
        ) {
            let shown = redact_url(&format!("postgres://relay@db:5432/orders?{lead}{name}={before}{CANARY}"));
            prop_assert!(!shown.contains(CANARY), "{shown}");
        }

        #[test]
        fn no_text_makes_it_panic(url in any::<String>()) {
            redact_url(&url);
        }
    }
}
