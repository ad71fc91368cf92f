//! Environment variables laid over the file: `POSTRIDER__OUTBOX__ORDERS__URL` replaces `url` in `[outbox.orders]`.
//!
//! They are applied to the parsed tree before it becomes types, so a variable is checked exactly like a line of the
//! file. A value is always text; every type of the configuration can be read from text.

use std::borrow::Cow;
use std::ffi::OsString;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Problem, Source};
use super::load::Origin;
use super::nearest::suggestion;

/// What the names of overriding variables begin with. One underscore is for the program's own (`POSTRIDER_CONFIG`).
const PREFIX: &str = "POSTRIDER__";

/// The tables whose keys are names that people choose.
const NAMED: [&str; 4] = ["outbox", "inbox", "broker", "listener"];

/// Lays the variables over the tree.
pub fn overlay<'i>(
    origin: &Origin,
    source: &mut Source,
    tree: &mut Spanned<DeTable<'i>>,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<(), Problem> {
    let mut ours: Vec<_> = variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    // The environment has no order of its own; an error must not depend on it.
    ours.sort();
    let names = NAMED.map(|table| (table, names(tree.get_ref(), table, origin)));
    for (name, value) in ours {
        let at = source.variable(&name);
        let refuse = |message: &str| Problem::new(message).at(at.clone());
        let value = value
            .into_string()
            .map_err(|_| refuse("the value is not valid UTF-8"))?;
        let path: Vec<&str> = name[PREFIX.len()..].split("__").collect();
        if path.len() < 2 || path.iter().any(|part| part.is_empty()) {
            let problem =
                refuse("the name must be POSTRIDER__TABLE__KEY, with two underscores between the parts");
            return Err(problem.help(
                "for example POSTRIDER__OUTBOX__ORDERS__URL or POSTRIDER__RELAY__BATCH_SIZE".to_owned(),
            ));
        }
        for (table, names) in &names {
            check_name(table, names, &path, origin).map_err(|problem| problem.at(at.clone()))?;
        }
        set(tree.get_mut(), &path, value, &at).map_err(|message| refuse(&message))?;
    }
    Ok(())
}

/// The names that a file gives in a table. The embedded default is nobody's choice, so it binds nobody.
fn names(tree: &DeTable<'_>, table: &str, origin: &Origin) -> Vec<String> {
    match (origin, tree.get(table).map(Spanned::get_ref)) {
        (Origin::File(_), Some(DeValue::Table(inner))) => {
            inner.keys().map(|key| key.get_ref().to_string()).collect()
        }
        _ => Vec::new(),
    }
}

/// Refuses a name that the file does not have, where it has others: a slip would make a second outbox beside the one
/// that was meant, and the service's events would stay in the first.
fn check_name(table: &str, names: &[String], path: &[&str], origin: &Origin) -> Result<(), Problem> {
    let [first, name, _, ..] = path else { return Ok(()) };
    if !same(table, first) || names.is_empty() || names.iter().any(|known| same(known, name)) {
        return Ok(());
    }
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let name = name.to_lowercase();
    Err(Problem::new(format!(
        "{} has no [{table}.{name}] for the variable to change",
        origin.show()
    ))
    .help(suggestion(&name, &known)))
}

type Place = std::ops::Range<usize>;

fn set<'i>(table: &mut DeTable<'i>, path: &[&str], value: String, at: &Place) -> Result<(), String> {
    let [first, rest @ ..] = path else { return Ok(()) };
    let key = known(table, first);
    if rest.is_empty() {
        table.remove(key.as_str());
        table.insert(
            Spanned::new(at.clone(), Cow::Owned(key)),
            Spanned::new(at.clone(), DeValue::String(Cow::Owned(value))),
        );
        return Ok(());
    }
    if !table.contains_key(key.as_str()) {
        let empty = DeValue::Table(DeTable::new());
        table.insert(
            Spanned::new(at.clone(), Cow::Owned(key.clone())),
            Spanned::new(at.clone(), empty),
        );
    }
    match table.get_mut(key.as_str()).map(Spanned::get_mut) {
        Some(DeValue::Table(inner)) => set(inner, rest, value, at),
        Some(DeValue::Array(_)) => Err(format!(
            "`{key}` is a list: set it in the file, not by a variable"
        )),
        _ => Err(format!("`{key}` is not a table")),
    }
}

/// The key of the file that a part of a variable's name means. Variables have no lower case and no hyphens.
fn known(table: &DeTable<'_>, part: &str) -> String {
    match table.keys().find(|key| same(key.get_ref(), part)) {
        Some(key) => key.get_ref().to_string(),
        None => part.to_lowercase(),
    }
}

fn same(key: &str, part: &str) -> bool {
    key.to_lowercase().replace('-', "_") == part.to_lowercase()
}
