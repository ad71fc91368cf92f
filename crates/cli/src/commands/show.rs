//! `postrider show` and `postrider dead show`: everything known about one event.

use postrider_core::{EventId, Status};
use serde_json::Value;

use super::record;
use crate::config::Config;
use crate::failure::{Done, Failed, Failure};
use crate::output::{Output, cell};
use crate::wire;

/// Which event, and how.
pub struct Wanted<'a> {
    pub id: &'a str,
    pub outbox: Option<&'a str>,
    pub payload: bool,
    pub only_dead: bool,
}

pub async fn show(config: &Config, out: Output, wanted: Wanted<'_>) -> Result<Done, Failure> {
    let mut values = Vec::new();
    let mut failed = Failed::default();
    for (name, outbox) in wire::chosen(config, wanted.outbox)? {
        let records = async {
            let opened = wire::ready(name, outbox).await?;
            let records = opened.console.show(EventId::from(wanted.id)).await;
            records.map_err(|error| Failure::store(name, &error))
        };
        for record in failed.keep(records.await).unwrap_or_default() {
            if wanted.only_dead
                && !record
                    .routes
                    .iter()
                    .any(|route| route.status == Status::DeadLetter)
            {
                continue;
            }
            if !out.is_json() {
                // A blank line between the records of a reused id.
                if !values.is_empty() {
                    out.line("")?;
                }
                record::print(out, name, &record, wanted.payload)?;
            }
            values.push(record::value(name, &record, wanted.payload));
        }
    }
    if values.is_empty() && !failed.is_some() {
        let what = if wanted.only_dead { "dead event" } else { "event" };
        let failure = Failure::found(format!("there is no {what} with the id {:?}", cell(wanted.id)));
        return Err(
            failure.advice("ids are exact; the history of published events is removed after its retention")
        );
    }
    if out.is_json() && !values.is_empty() {
        out.value(&Value::Array(values))?;
    }
    failed.or(out.is_json(), Done::Fine)
}
