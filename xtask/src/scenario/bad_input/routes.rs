//! A route that matches nothing: the event waits for a person, and goes when the route is mended.

use super::trial::{CONFIGURATION, Trial};
use crate::failure::Result;

pub(super) fn play(trial: &mut Trial<'_>) -> Result<()> {
    let case = "no-route";
    let narrow = CONFIGURATION.replace(
        "[[route]]\n",
        "[[route]]\nwhen = { event_type = \"OrderPlaced\" }\n",
    );
    let directory = trial.directory(case, &narrow)?;
    trial.expect(case, &directory, &["migrate", "up"], 0, &[])?;
    let explain = [
        "route",
        "explain",
        "--type",
        "OrderPaid",
        "--aggregate",
        "ORDER/1",
    ];
    trial.expect(case, &directory, &explain, 1, &["OrderPlaced"])?;

    let stray = [
        "send",
        "--type",
        "OrderPaid",
        "--aggregate",
        "ORDER/1",
        "--id",
        "stray",
        "--payload",
        "{}",
    ];
    trial.expect(case, &directory, &stray, 0, &[])?;
    let good = [
        "send",
        "--type",
        "OrderPlaced",
        "--aggregate",
        "ORDER/2",
        "--id",
        "good",
        "--payload",
        "{}",
    ];
    trial.expect(case, &directory, &good, 0, &[])?;
    trial.expect(
        case,
        &directory,
        &["run", "--until-empty"],
        1,
        &["1 published", "1 dead"],
    )?;
    trial.expect(
        case,
        &directory,
        &["dead", "list"],
        0,
        &["stray", "no_route", "Add a route"],
    )?;

    std::fs::write(directory.join("postrider.toml"), CONFIGURATION)?;
    let redrive = ["dead", "redrive", "--kind", "no_route", "--yes"];
    trial.expect(case, &directory, &redrive, 0, &["1 delivery redriven"])?;
    trial.expect(case, &directory, &["run", "--until-empty"], 0, &["1 published"])?;
    let text = std::fs::read_to_string(directory.join("lines.jsonl"))?;
    let arrived = text.lines().count() == 2 && text.contains("\"stray\"");
    trial.check(case, arrived, || format!("not two lines with stray: {text}"));
    Ok(())
}
