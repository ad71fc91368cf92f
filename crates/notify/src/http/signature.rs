//! How a person proves who they are: a signature of their id, made by the service that logged them in.

use hmac::{Hmac, KeyInit, Mac};
use postrider_core::Secret;
use sha2::Sha256;

/// The signature of a recipient: HMAC-SHA256 of their id, in hexadecimal digits. Whoever has it may read this feed and
/// change these preferences until the secret is changed, so it goes to the page of that person and nowhere else.
///
/// ```
/// use postrider_core::Secret;
/// use postrider_notify::http::sign;
///
/// // printf %s ada | openssl dgst -sha256 -hmac s3cret
/// let signature = "6717f0477004f82dc8373f24690dd16725eefaef45dfc979a7176ac2ece78e26";
/// assert_eq!(sign(&Secret::new("s3cret"), "ada"), signature);
/// ```
pub fn sign(secret: &Secret, recipient: &str) -> String {
    let Some(mac) = mac(secret, recipient) else {
        return String::new();
    };
    let digits = mac.finalize().into_bytes();
    digits.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The signature in a mail, by which a recipient turns mail off with one click: that of `unsubscribe`, a line feed and
/// their id. No id has a line feed, so it opens nobody's feed, and whoever gets hold of a mail can do no more than
/// that.
///
/// ```
/// use postrider_core::Secret;
/// use postrider_notify::http::{sign, sign_unsubscribe};
///
/// // printf 'unsubscribe\nada' | openssl dgst -sha256 -hmac s3cret
/// let secret = Secret::new("s3cret");
/// assert_eq!(sign_unsubscribe(&secret, "ada"), sign(&secret, "unsubscribe\nada"));
/// assert_ne!(sign_unsubscribe(&secret, "ada"), sign(&secret, "ada"));
/// ```
pub fn sign_unsubscribe(secret: &Secret, recipient: &str) -> String {
    sign(secret, &unsubscribing(recipient))
}

/// Whether a signature is the one in a mail to a recipient.
pub(super) fn is_signed_unsubscribe(secret: &Secret, recipient: &str, signature: &str) -> bool {
    is_signed(secret, &unsubscribing(recipient), signature)
}

fn unsubscribing(recipient: &str) -> String {
    format!("unsubscribe\n{recipient}")
}

/// Whether a signature is that of a recipient. How long it takes says nothing about how much of it was right.
pub(super) fn is_signed(secret: &Secret, recipient: &str, signature: &str) -> bool {
    match (mac(secret, recipient), bytes(signature)) {
        (Some(mac), Some(given)) => mac.verify_slice(&given).is_ok(),
        _ => false,
    }
}

/// HMAC takes a key of any length; an empty one would be no secret, and signs nothing.
fn mac(secret: &Secret, recipient: &str) -> Option<Hmac<Sha256>> {
    let key = secret.expose().as_bytes();
    let mut mac = Hmac::<Sha256>::new_from_slice(key)
        .ok()
        .filter(|_| !key.is_empty())?;
    mac.update(recipient.as_bytes());
    Some(mac)
}

/// The bytes that 64 hexadecimal digits stand for.
fn bytes(digits: &str) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = digits.as_bytes().try_into().ok()?;
    let value = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .and_then(|value| u8::try_from(value).ok())
    };
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_hmac_of_the_rfc() {
        // Test case 2 of RFC 4231.
        let signature = sign(&Secret::new("Jefe"), "what do ya want for nothing?");
        let known = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(signature, known);
        assert!(is_signed(
            &Secret::new("Jefe"),
            "what do ya want for nothing?",
            known
        ));
        assert!(is_signed(
            &Secret::new("Jefe"),
            "what do ya want for nothing?",
            &known.to_uppercase()
        ));
    }

    #[test]
    fn only_the_whole_signature_of_this_recipient_counts() {
        let secret = Secret::new("s3cret");
        let ada = sign(&secret, "ada");
        assert!(is_signed(&secret, "ada", &ada));
        let mut wrong = vec![
            String::new(),
            "zz".repeat(32),
            ada[..62].to_owned(),
            format!("{ada}00"),
        ];
        wrong.push(sign(&secret, "ben"));
        wrong.push(sign(&Secret::new("other"), "ada"));
        wrong.push("é".repeat(32));
        for wrong in wrong {
            assert!(!is_signed(&secret, "ada", &wrong), "{wrong}");
        }
        let empty = Secret::new("");
        assert!(!is_signed(&empty, "ada", &sign(&empty, "ada")));
    }
}
