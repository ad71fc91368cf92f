//! `postrider notify`: the commands of notifications.

pub mod migrate;
pub mod run;
pub mod show;

use postrider_notify::http;
use serde_json::json;

use crate::config::Config;
use crate::failure::{Done, Failure};
use crate::notify;
use crate::output::Output;

/// Prints the signature of somebody.
pub fn sign(config: &Config, out: Output, user: &str) -> Result<Done, Failure> {
    let (settings, _) = notify::configured(config)?;
    let Some(secret) = &settings.secret else {
        let advice = "set `secret_file` in [notify] to a file with a long random text";
        return Err(Failure::input("there is no secret to sign with").advice(advice));
    };
    if user.is_empty() {
        return Err(Failure::input("the id of a recipient is not empty"));
    }
    let signature = http::sign(secret, user);
    out.either(&json!({ "user": user, "signature": signature }), &signature)?;
    Ok(Done::Fine)
}
