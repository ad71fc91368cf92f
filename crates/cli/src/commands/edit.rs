//! `postrider dead edit`: another payload for an event that failed, which is sent again with it.

use postrider_core::{DestinationName, Edit, EventId, EventRecord, Payload, Status};

use super::ask::{actor, confirm};
use super::total::Total;
use crate::args::EditArgs;
use crate::config::Config;
use crate::failure::{Done, Failure};
use crate::output::{Output, cell, count};
use crate::wire;

pub async fn edit(config: &Config, out: Output, args: &EditArgs) -> Result<Done, Failure> {
    let payload = payload(args)?;
    let mut total = Total::new(("edit", "edited and redriven"), false);
    for (name, outbox) in wire::chosen(config, args.outbox.as_deref())? {
        let opened = wire::ready(name, outbox).await?;
        let records = opened.console.show(EventId::from(args.id.as_str())).await;
        let records = records.map_err(|error| Failure::store(name, &error))?;
        let Some(worst) = records
            .iter()
            .map(EventRecord::status)
            .min_by_key(|s| s.severity())
        else {
            continue;
        };
        total.found.insert(args.id.clone());
        if !matches!(worst, Status::DeadLetter | Status::Retrying) {
            total.refused.push((args.id.clone(), worst));
            continue;
        }
        check(&records, args, &payload)?;
        if !args.yes {
            let question = format!(
                "replace the payload of {} by {} and send it again?",
                cell(&args.id),
                count(payload.len() as u64, "byte")
            );
            confirm(&question, "give --yes")?;
        }
        let edit = Edit {
            event_id: EventId::from(args.id.as_str()),
            destination: args.destination.as_deref().map(DestinationName::from),
            payload: payload.clone(),
            content_type: args.content_type.clone(),
            actor: actor(),
        };
        let chunk = opened.console.edit(edit).await;
        total.add(chunk.map_err(|error| Failure::store(name, &error))?);
    }
    total.report(out, std::slice::from_ref(&args.id))
}

/// What can never be sent is refused before anything is changed. Of a row that is no event the store has to judge.
fn check(records: &[EventRecord], args: &EditArgs, payload: &Payload) -> Result<(), Failure> {
    for event in records.iter().filter_map(|record| record.event.as_ref().ok()) {
        let mut event = event.clone();
        event.payload = payload.clone();
        event.content_type = args.content_type.clone().or(event.content_type);
        event.validate().map_err(|error| {
            Failure::input("the new payload is refused")
                .because(&error)
                .advice("nothing was changed; correct it and try again")
        })?;
    }
    Ok(())
}

fn payload(args: &EditArgs) -> Result<Payload, Failure> {
    if let Some(text) = &args.payload {
        return Ok(Payload::Text(text.clone()));
    }
    let Some(path) = &args.payload_file else {
        return Ok(Payload::Tombstone);
    };
    let bytes = std::fs::read(path).map_err(|error| {
        Failure::input(format!("cannot read the payload from {}", path.display())).because(&error)
    })?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Payload::Text(text),
        Err(error) => Payload::Bytes(error.into_bytes().into()),
    })
}
