//! `postrider show` and `postrider dead show`: everything known about one event.

use postrider_core::{EventId, RecordedRoute, Status};
use serde_json::Value;

use super::record::{self, Beside};
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
    let mut others = Vec::new();
    let mut failed = Failed::default();
    for (name, outbox) in wire::chosen(config, wanted.outbox)? {
        let records = async {
            let opened = wire::ready(name, outbox).await?;
            let records = opened.console.show(EventId::from(wanted.id)).await;
            let records = records.map_err(|error| Failure::store(name, &error))?;
            let controls = opened.console.controls().await;
            let mut paused = controls.map_err(|error| Failure::store(name, &error))?;
            paused.retain(|one| one.paused);
            let beside = Beside {
                router: &config.router,
                paused: Some(paused),
            };
            Ok((records, beside))
        };
        let Some((records, beside)) = failed.keep(records.await) else {
            continue;
        };
        for record in records {
            let failed =
                |route: &RecordedRoute| matches!(route.status, Status::DeadLetter | Status::Retrying);
            if wanted.only_dead && !record.routes.iter().any(failed) {
                others.push(record.status());
                continue;
            }
            if !out.is_json() {
                // A blank line between the records of a reused id.
                if !values.is_empty() {
                    out.line("")?;
                }
                record::print(out, name, &record, wanted.payload, &beside)?;
            }
            values.push(record::value(name, &record, wanted.payload, &beside));
        }
    }
    if let Some(status) = others.first().filter(|_| values.is_empty()) {
        let (id, status) = (cell(wanted.id), status.as_str());
        let failure = Failure::found(format!(
            "the event {id:?} is neither dead nor refused: it is {status}"
        ));
        return Err(failure.advice("`postrider show ID` shows an event in any state"));
    }
    if values.is_empty() && !failed.is_some() {
        let what = match wanted.only_dead {
            true => "dead or refused event",
            false => "event",
        };
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
