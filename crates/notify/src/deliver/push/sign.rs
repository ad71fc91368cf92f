//! Signatures as Standard Webhooks has them: who knows the secret can tell that a call is ours, and when it was made.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use postrider_core::Secret;
use sha2::Sha256;

use super::options::PushError;

/// What marks a secret that is written as base64.
const PREFIX: &str = "whsec_";
/// The shortest that the standard allows.
const SHORTEST: usize = 24;
/// What a header cannot carry, or what would make the signed text mean two things: it is joined by full stops.
const NOT_IN_ID: &AsciiSet = &CONTROLS.add(b' ').add(b'.').add(b'%');

pub(super) struct Signer(Hmac<Sha256>);

impl Signer {
    pub(super) fn new(secret: &Secret) -> Result<Self, PushError> {
        let key = match secret.expose().strip_prefix(PREFIX) {
            Some(encoded) => STANDARD
                .decode(encoded)
                .map_err(|_| PushError::Secret("begins with whsec_ and is not base64 after that"))?,
            None => secret.expose().as_bytes().to_vec(),
        };
        if key.len() < SHORTEST {
            return Err(PushError::Secret("is shorter than 24 bytes and could be guessed"));
        }
        let keyed = Hmac::new_from_slice(&key).map_err(|_| PushError::Secret("cannot be a key"))?;
        Ok(Self(keyed))
    }

    /// The time, in seconds since 1970, and the signature.
    pub(super) fn sign(&self, id: &str, body: &str) -> (String, String) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = now.as_secs().to_string();
        let signature = self.sign_at(id, &time, body);
        (time, signature)
    }

    fn sign_at(&self, id: &str, time: &str, body: &str) -> String {
        let mut keyed = self.0.clone();
        for part in [id, ".", time, ".", body] {
            keyed.update(part.as_bytes());
        }
        format!("v1,{}", STANDARD.encode(keyed.finalize().into_bytes()))
    }
}

/// The event's id as it goes into a header: the same whenever the event is sent.
pub(super) fn id(event_id: &str) -> String {
    utf8_percent_encode(event_id, NOT_IN_ID).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the specification of Standard Webhooks.
    #[test]
    fn the_signature_is_the_one_of_the_standard() {
        let signer = Signer::new(&Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")).unwrap();
        let signature = signer.sign_at(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "1614265330",
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_that_could_be_guessed_is_refused_and_not_shown() {
        for wrong in ["t1ny", "whsec_c2hvcnQ=", "whsec_not base64 at all, is it"] {
            let Err(error) = Signer::new(&Secret::new(wrong)) else {
                panic!("{wrong} was taken");
            };
            assert!(!error.to_string().contains(wrong));
        }
        assert!(Signer::new(&Secret::new("any text of twenty-four bytes")).is_ok());
    }

    #[test]
    fn no_id_makes_two_texts_the_same() {
        assert_eq!(id("notification-7-push"), "notification-7-push");
        assert_eq!(id("a.1\r\nb é"), "a%2E1%0D%0Ab%20%C3%A9");
    }
}
