//! [bad-input] Every kind of bad input gets a clear error, and nothing is lost.
//!
//! Each case drives the built binary as a person or a service would, and looks at three things: the exit code, the
//! words of the error (the place, the name, what to do), and that the good events around the bad one arrive.

mod configuration;
mod read_only;
mod routes;
mod rows;
mod sending;
mod trial;

use super::outcome::Outcome;
use super::stage::Stage;
use crate::failure::Result;
use trial::Trial;

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let mut trial = Trial::new(stage);
    configuration::play(&mut trial)?;
    sending::play(&mut trial)?;
    routes::play(&mut trial)?;
    read_only::play(&mut trial)?;
    // Last, because its shop is the one whose orders are counted: bad rows lie between them.
    let account = rows::play(&mut trial)?;
    let mut outcome = Outcome::of(account);
    outcome.figure("cases", trial.cases());
    for problem in trial.problems() {
        outcome.check(false, || problem);
    }
    Ok(outcome)
}
