//! What can be asked of a listener.

use clap::Args;

use crate::args::pair;

pub const HELP: &str = "\
Examples:
  timeout --preserve-status --signal=INT 1 postrider listen --migrate
  timeout --preserve-status --signal=INT 1 postrider listen billing --json
  timeout --preserve-status --signal=INT 1 postrider listen \\
    --http http://127.0.0.1:8080/events --broker events \\
    --consumer mailer --inbox main --dead-letters broker=dead

2xx: done, and recorded. 401, 403, 404, 405, 408, 425, 429, 5xx, a redirect (it
is not followed) and no answer: called again later. Any other 4xx: to the dead
letters.

A call and its record are two steps: whoever dies between them calls again,
with the same Idempotency-Key. docs/listener.md has the headers.";

/// `postrider listen`
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// Only this one of the listeners that are configured as `[listener.NAME]`
    #[arg(value_name = "NAME", conflicts_with = "http")]
    pub name: Option<String>,
    /// Where to post to, without any `[listener.NAME]`; a url with a secret in it belongs into the file
    #[arg(long, value_name = "URL", requires_all = ["broker", "consumer", "dead_letters"])]
    pub http: Option<String>,
    /// The broker to read from
    #[arg(long, value_name = "NAME", requires = "http")]
    pub broker: Option<String>,
    /// Its queue; a file has none
    #[arg(long, value_name = "QUEUE", requires = "http")]
    pub queue: Option<String>,
    /// The name under which the inbox records what was called
    #[arg(long, value_name = "NAME", requires = "http")]
    pub consumer: Option<String>,
    /// The inbox; needed if there are several
    #[arg(long, value_name = "NAME", requires = "http")]
    pub inbox: Option<String>,
    /// Where rejected events go: broker=NAME and the parts of an address
    #[arg(long, value_name = "PART=VALUE", requires = "http", value_delimiter = ',', value_parser = pair)]
    pub dead_letters: Vec<(String, String)>,
    /// Make missing tables first
    #[arg(long)]
    pub migrate: bool,
}
