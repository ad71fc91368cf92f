//! A mail as the server has it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

/// A mail that arrived.
#[derive(Clone, Debug)]
pub struct Mail {
    /// The addresses that it is for, from the header.
    pub to: Vec<String>,
    /// The names of these.
    pub names: Vec<String>,
    /// The subject, decoded.
    pub subject: String,
    /// The plain text, decoded.
    pub text: String,
    /// The HTML, decoded.
    pub html: Option<String>,
    /// The headers, decoded, with names in small letters. One that is there several times has its values in one list.
    pub headers: BTreeMap<String, Value>,
    /// The mail as it was sent.
    pub raw: String,
}

impl Mail {
    /// A header that is there once.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(Value::as_str)
    }
}

#[derive(Deserialize)]
struct Listed {
    #[serde(default)]
    to: Vec<Named>,
    #[serde(default)]
    subject: String,
    #[serde(default)]
    text: String,
    html: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Value>,
    source: PathBuf,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    address: String,
    #[serde(default)]
    name: String,
}

/// Reads the server's list. After a restart its order is by chance; the files keep the one of arrival.
pub(super) fn read(listed: &str) -> io::Result<Vec<Mail>> {
    let listed: Vec<Listed> = serde_json::from_str(listed)?;
    let mut mails = Vec::with_capacity(listed.len());
    for one in listed {
        let written = fs::metadata(&one.source)?.modified()?;
        let mail = Mail {
            to: one.to.iter().map(|named| named.address.clone()).collect(),
            names: one.to.into_iter().map(|named| named.name).collect(),
            subject: one.subject,
            text: one.text,
            html: one.html,
            headers: one.headers,
            raw: fs::read_to_string(&one.source)?,
        };
        mails.push((written, mail));
    }
    mails.sort_by_key(|(written, _)| *written);
    Ok(mails.into_iter().map(|(_, mail)| mail).collect())
}
