//! Who may ask.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, header};
use postrider_core::Secret;
use subtle::ConstantTimeEq;

/// An address beyond this machine, without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedAddress(pub SocketAddr);

impl fmt::Display for RefusedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} can be reached from other machines, and no token is set",
            self.0
        )
    }
}

impl std::error::Error for RefusedAddress {}

/// Refuses to be reachable from other machines without a token: what waits, and for whom, is nobody else's business.
pub fn check_address(address: SocketAddr, token: Option<&Secret>) -> Result<(), RefusedAddress> {
    match address.ip().to_canonical().is_loopback() || token.is_some() {
        true => Ok(()),
        false => Err(RefusedAddress(address)),
    }
}

/// Whether a request carries the token. How long it takes says nothing about how much of it was right.
pub fn has_token(headers: &HeaderMap, token: &Secret) -> bool {
    let given = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let Some((scheme, given)) = given.and_then(|value| value.split_at_checked(7)) else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(given.trim_ascii().ct_eq(token.expose().as_bytes()))
}

/// Whether a request names this machine as people do who mean it. A page of another site that made its own name point
/// here (DNS rebinding) cannot help naming itself.
pub fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST) else {
        return true;
    };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn only_loopback_needs_no_token() {
        let token = Secret::new("s");
        for address in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(check_address(address.parse().unwrap(), None), Ok(()), "{address}");
        }
        for address in [
            "0.0.0.0:1",
            "[::]:1",
            "10.0.0.1:1",
            "[::ffff:10.0.0.1]:1",
            "[fe80::1]:1",
        ] {
            let address = address.parse().unwrap();
            assert_eq!(check_address(address, None), Err(RefusedAddress(address)));
            assert_eq!(check_address(address, Some(&token)), Ok(()));
        }
    }

    #[test]
    fn a_token_is_compared_whole() {
        let token = Secret::new("correct-horse");
        let has = |value: &str| has_token(&with(header::AUTHORIZATION, value), &token);
        assert!(has("Bearer correct-horse") && has("bearer correct-horse"));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer correct-hors",
            "Bearer correct-horsee",
            "Basic correct-horse",
            "correct-horse",
        ] {
            assert!(!has(wrong), "{wrong}");
        }
        assert!(!has_token(&HeaderMap::new(), &token));
    }

    #[test]
    fn another_name_for_this_machine_is_refused() {
        let ours = |host: &str| names_this_machine(&with(header::HOST, host));
        assert!(ours("localhost:7787") && ours("127.0.0.1") && ours("[::1]:80") && ours("10.1.2.3:7787"));
        assert!(!ours("evil.example") && !ours("evil.example:7787") && !ours("localhost.evil.example"));
    }
}
