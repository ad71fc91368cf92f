//! `postrider migrate up`, `down`, `status` and `print`.

use postrider_core::{Migration, SchemaStatus};
use serde_json::json;

use super::ask::confirm;
use crate::cli::PrintArgs;
use crate::config::{Config, Outbox};
use crate::failure::{Done, Failed, Failure};
use crate::output::{Output, count, whole};
use crate::wire::{self, Missing};

pub async fn up(config: &Config, out: Output, outbox: Option<&str>) -> Result<Done, Failure> {
    for (name, outbox) in wire::chosen(config, outbox)? {
        let opened = wire::open(name, outbox, Missing::Create)?;
        let steps = opened
            .schema
            .up()
            .await
            .map_err(|error| Failure::store(name, &error))?;
        let status = opened
            .schema
            .status()
            .await
            .map_err(|error| Failure::store(name, &error))?;
        let text = match steps.as_slice() {
            [] => format!("{name}: up to date at version {}", status.installed),
            steps => format!(
                "{name}: migrated to version {} ({} steps)",
                status.installed,
                steps.len()
            ),
        };
        out.either(
            &json!({ "outbox": name, "steps": steps, "installed": status.installed }),
            text,
        )?;
        // Told before, because this may take long.
        let completed = opened.schema.complete().await;
        let indexed = completed.map_err(|error| Failure::store(name, &error))?;
        if indexed > 0 && !out.is_json() {
            out.line(format!(
                "{name}: indexed {} of the history",
                count(indexed, "day")
            ))?;
        }
    }
    Ok(Done::Fine)
}

pub async fn down(config: &Config, out: Output, outbox: Option<&str>, yes: bool) -> Result<Done, Failure> {
    let chosen = wire::chosen(config, outbox)?;
    let names: Vec<&str> = chosen.iter().map(|(name, _)| *name).collect();
    if !yes {
        let question = format!("remove the tables of {} with their history?", names.join(", "));
        confirm(&question, "give --yes")?;
    }
    for (name, outbox) in chosen {
        let opened = wire::open(name, outbox, Missing::Refuse)?;
        let status = opened
            .schema
            .status()
            .await
            .map_err(|error| Failure::store(name, &error))?;
        if status.queued + status.parked > 0 {
            return Err(in_the_way(name, &status));
        }
        let steps = opened
            .schema
            .down()
            .await
            .map_err(|error| Failure::store(name, &error))?;
        let text = format!("{name}: tables removed ({} steps)", steps.len());
        out.either(&json!({ "outbox": name, "steps": steps, "installed": 0 }), text)?;
    }
    Ok(Done::Fine)
}

fn in_the_way(name: &str, status: &SchemaStatus) -> Failure {
    let (queued, parked) = (status.queued, status.parked);
    Failure::found(format!(
        "{name}: {queued} queued and {parked} parked events would be lost; nothing was removed"
    ))
    .advice(
        "publish them with `postrider run --until-empty`, which leaves those that are scheduled for later, or discard \
         them with `postrider dead discard`",
    )
}

pub async fn status(config: &Config, out: Output, outbox: Option<&str>) -> Result<Done, Failure> {
    let mut done = Done::Fine;
    let mut rows = Vec::new();
    let mut failed = Failed::default();
    let mut notes = Vec::new();
    for (name, outbox) in wire::chosen(config, outbox)? {
        let status = async {
            if !wire::exists(outbox) {
                return Ok(None);
            }
            let opened = wire::open(name, outbox, Missing::Refuse)?;
            let status = opened.schema.status().await;
            status.map(Some).map_err(|error| Failure::store(name, &error))
        };
        let Some(status) = failed.keep(status.await) else {
            continue;
        };
        let state = match &status {
            None => "no database file",
            Some(status) if status.installed == status.wanted => "up to date",
            Some(status) if status.installed > status.wanted => "newer than this program",
            Some(_) => "run `postrider migrate up`",
        };
        if state != "up to date" {
            done = Done::Found;
        }
        let number = |pick: fn(&SchemaStatus) -> u64| status.as_ref().map_or(0, pick);
        let installed = number(|it| it.installed.into());
        let wanted = match &status {
            Some(status) => status.wanted.into(),
            None => steps(name, outbox)?
                .last()
                .map_or(0, |step| u64::from(step.version)),
        };
        let (queued, parked) = (number(|it| it.queued), number(|it| it.parked));
        let differs = status.map(|status| status.differs).unwrap_or_default();
        notes.extend(differs.iter().map(|text| format!("note: {name}: {text}")));
        if out.is_json() {
            let ok = state == "up to date";
            out.value(
                &json!({ "outbox": name, "ok": ok, "state": state, "installed": installed, "wanted": wanted,
                "queued": queued, "parked": parked, "differs": differs }),
            )?;
        }
        rows.push(
            [
                name.to_owned(),
                installed.to_string(),
                wanted.to_string(),
                queued.to_string(),
                parked.to_string(),
                state.to_owned(),
            ]
            .to_vec(),
        );
    }
    if !out.is_json() && !rows.is_empty() {
        out.table(
            &["OUTBOX", "INSTALLED", "WANTED", "QUEUED", "PARKED", "STATE"],
            rows,
        )?;
        notes.iter().try_for_each(|note| out.line(note))?;
    }
    failed.or(out.is_json(), done)
}

/// Prints the SQL, and with a role what it must be granted.
pub fn print(config: &Config, out: Output, args: &PrintArgs) -> Result<Done, Failure> {
    for (name, outbox) in wire::chosen(config, args.outbox.outbox.as_deref())? {
        let (schema, _folder) = wire::elsewhere(name, outbox)?;
        // Asked before anything is printed, so that a refusal leaves no half of it.
        let role = args.role.as_deref();
        let grants = role.map(|role| schema.grants(role)).transpose();
        let grants = grants.map_err(|error| {
            Failure::input(format!("the grants of outbox {name:?} cannot be printed"))
                .because(&error)
                .advice("leave out --role, or name an outbox in a database with roles with --outbox")
        })?;
        let mut steps = schema.migrations();
        steps.retain(|step| !args.grants && args.from.is_none_or(|from| step.version > from));
        print_steps(steps, out, name, args.down)?;
        if let (Some(grants), Some(role)) = (grants, role) {
            let value = json!({ "outbox": name, "role": role, "sql": grants });
            let what = format!("{name}: what the role {} needs; it must exist", whole(role));
            out.either(&value, transaction(&[(what, &grants)]))?;
        }
    }
    Ok(Done::Fine)
}

/// Every step of an outbox.
fn steps(name: &str, outbox: &Outbox) -> Result<Vec<Migration>, Failure> {
    Ok(wire::elsewhere(name, outbox)?.0.migrations())
}

fn print_steps(mut steps: Vec<Migration>, out: Output, name: &str, down: bool) -> Result<(), Failure> {
    if down {
        steps.reverse();
    }
    let sql = |step: &Migration| match down {
        true => step.down.clone(),
        false => step.up.clone(),
    };
    if out.is_json() {
        return steps.iter().try_for_each(|step| {
            let sql = sql(step);
            out.value(&json!({ "outbox": name, "version": step.version, "name": step.name, "sql": sql }))
        });
    }
    let parts: Vec<(String, String)> = steps
        .iter()
        .map(|step| (format!("{name}: {:04} {}", step.version, step.name), sql(step)))
        .collect();
    match parts.is_empty() {
        true => Ok(()),
        false => out.line(transaction(&parts)),
    }
}

/// Statements that take effect together or not at all. Every step of either store can be undone, so none has to stand
/// outside of a transaction.
fn transaction(parts: &[(String, impl AsRef<str>)]) -> String {
    let mut text = "BEGIN;\n".to_owned();
    for (what, sql) in parts {
        text.push_str(&format!("-- {what}\n{}\n\n", sql.as_ref().trim_end()));
    }
    text + "COMMIT;\n"
}
