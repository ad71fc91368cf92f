//! Mistakes in the configuration, and tables that are not there.

use super::trial::{CONFIGURATION, Trial};
use crate::failure::Result;

pub(super) fn play(trial: &mut Trial<'_>) -> Result<()> {
    mistake(
        trial,
        "unknown-key",
        &format!("{CONFIGURATION}\n[relay]\nbatch_sise = 5\n"),
        &[
            "unknown key `batch_sise`",
            "postrider.toml:11",
            "did you mean `batch_size`?",
        ],
    )?;
    mistake(
        trial,
        "negative-duration",
        &format!("{CONFIGURATION}\n[relay]\npoll_interval = \"-1s\"\n"),
        &["must not be negative", "postrider.toml:11", "-1s"],
    )?;
    mistake(
        trial,
        "quoted-prefix",
        &CONFIGURATION.replace("[broker.lines]", "prefix = \"out\\\"box\"\n\n[broker.lines]"),
        &[
            "table prefix",
            "letters, digits and underscores",
            "postrider.toml:4",
        ],
    )?;

    let directory = trial.directory("no-tables", CONFIGURATION)?;
    for arguments in [["run", "--until-empty"], ["status", "--json"]] {
        trial.expect(
            "missing-file",
            &directory,
            &arguments,
            3,
            &["shop.db", "postrider migrate up"],
        )?;
    }
    // A database of the service's own, in which nobody has made the tables yet.
    rusqlite::Connection::open(directory.join("shop.db"))?
        .execute_batch("CREATE TABLE orders (id INTEGER)")?;
    for arguments in [["run", "--until-empty"], ["status", "--json"]] {
        trial.expect(
            "missing-table",
            &directory,
            &arguments,
            3,
            &["do not exist", "postrider migrate up"],
        )?;
    }
    Ok(())
}

/// Every command that reads the configuration refuses it in the same words and touches nothing.
fn mistake(trial: &mut Trial<'_>, case: &str, configuration: &str, words: &[&str]) -> Result<()> {
    let directory = trial.directory(case, configuration)?;
    for arguments in [["config", "check"], ["migrate", "up"], ["run", "--until-empty"]] {
        trial.expect(case, &directory, &arguments, 2, words)?;
    }
    let touched = directory.join("shop.db").exists() || directory.join("lines.jsonl").exists();
    trial.check(case, !touched, || {
        "a file was made although the configuration is wrong".to_owned()
    });
    Ok(())
}
