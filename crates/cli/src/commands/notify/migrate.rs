//! `postrider notify migrate up` and `print`.

use serde_json::json;

use crate::config::{Config, Inbox};
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::wire::{self, Missing};
use crate::{inbox, notify};

/// Makes what is missing of everything that notifications need.
pub async fn up(config: &Config, out: Output) -> Result<Done, Failure> {
    wire::check(config)?;
    let (settings, outbox) = notify::configured(config)?;
    let name = settings.outbox.as_str();
    let opened = wire::open(name, outbox, Missing::Create)?;
    let steps = opened.schema.up().await;
    let steps = steps.map_err(|error| Failure::store(name, &error))?;
    let completed = opened.schema.complete().await;
    completed.map_err(|error| Failure::store(name, &error))?;
    notify::open(config, Missing::Create)?.migrate(name).await?;
    let value = json!({ "outbox": name, "steps": steps, "notifications": true });
    out.either(&value, format!("{name}: the tables of notifications are there"))?;
    Ok(Done::Fine)
}

/// Prints what `up` runs behind the tables of the outbox. Nothing is touched.
pub fn print(config: &Config, out: Output) -> Result<Done, Failure> {
    wire::check(config)?;
    let (settings, outbox) = notify::configured(config)?;
    let (name, beside) = (settings.outbox.as_str(), Inbox::beside(outbox, &config.cleanup));
    let inbox = inbox::sql(name, &beside)?;
    let (opened, _folder) = notify::elsewhere(config)?;
    let board = opened.board().sql();
    if out.is_json() {
        out.value(&json!({ "outbox": name, "name": "inbox", "sql": inbox }))?;
        out.value(&json!({ "outbox": name, "name": "notifications", "sql": board }))?;
        return Ok(Done::Fine);
    }
    let parts = [("inbox", inbox.trim_end()), ("notifications", board.trim_end())];
    let mut text = "BEGIN;\n".to_owned();
    for (what, sql) in parts {
        text.push_str(&format!("-- {name}: {what}\n{sql}\n\n"));
    }
    out.line(text + "COMMIT;\n")?;
    Ok(Done::Fine)
}
