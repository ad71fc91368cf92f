//! Environment variables laid over the file: `POSTRIDER__OUTBOX__ORDERS__URL` replaces `url` in `[outbox.orders]`.
//!
//! They are applied to the parsed tree before it becomes types, so a variable is checked exactly like a line of the
//! file. A value is always text; every type of the configuration can be read from text.

use std::borrow::Cow;
use std::ffi::OsString;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Problem, Source};

/// What the names of overriding variables begin with. One underscore is for the program's own (`POSTRIDER_CONFIG`).
const PREFIX: &str = "POSTRIDER__";

/// Lays the variables over the tree.
pub fn overlay<'i>(
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
        set(tree.get_mut(), &path, value, &at).map_err(|message| refuse(&message))?;
    }
    Ok(())
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
    let wanted = part.to_lowercase();
    let same = |key: &str| key.to_lowercase().replace('-', "_") == wanted;
    match table.keys().find(|key| same(key.get_ref())) {
        Some(key) => key.get_ref().to_string(),
        None => wanted,
    }
}
