//! Notifications on PostgreSQL and RabbitMQ, every part a process of its own: the relay of the shop, the service that
//! notifies, and a url that is told of pushes.
//!
//! Business events and whom they must reach are committed together in the shop's database. At the end that list is
//! compared, in SQL, with the notifications that are there.

mod account;
mod ask;
mod broadcast;
mod configuration;
mod crashes;
mod hook;
mod house;
mod processes;
mod repeats;
mod rules;

use std::time::Duration;

use super::account::Report;
use super::outcome::Outcome;
use super::stage::Stage;
use crate::failure::{Doing, Result};

pub(super) use broadcast::play as broadcast;
use house::House;

/// Between two looks at a database or a queue.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long anything may take that ought to happen within seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// One part of the scenario, by the name that the documents give it.
struct Part {
    name: &'static str,
    play: fn(&House<'_>, &mut Outcome) -> Result<()>,
}

const PARTS: &[Part] = &[
    Part {
        name: "004 relay crash before publishing",
        play: crashes::relay_before_publishing,
    },
    Part {
        name: "004 relay crash after publishing",
        play: crashes::relay_after_publishing,
    },
    Part {
        name: "004 duplicate delivery",
        play: repeats::duplicate_delivery,
    },
    Part {
        name: "004 one row already there",
        play: repeats::one_row_already_there,
    },
    Part {
        name: "004 listener crash before acknowledge",
        play: crashes::listener_before_acknowledge,
    },
    Part {
        name: "003 duplicate event id",
        play: repeats::duplicate_event_id,
    },
    Part {
        name: "003 same resource under another event id",
        play: repeats::same_resource,
    },
    Part {
        name: "003 race of two listeners",
        play: repeats::race_of_two_listeners,
    },
    Part {
        name: "003 retry after failure",
        play: crashes::retry_after_failure,
    },
    Part {
        name: "stored and not delivered",
        play: crashes::stored_and_not_delivered,
    },
    Part {
        name: "following again after the window",
        play: rules::following_again,
    },
    Part {
        name: "a second comment on one post",
        play: rules::second_comment,
    },
    Part {
        name: "a second channel of one event",
        play: rules::second_channel,
    },
    Part {
        name: "a preference changed in the middle of a fan-out",
        play: rules::preference_in_the_middle,
    },
    Part {
        name: "hostile names and templates that miss a field",
        play: rules::hostile,
    },
    Part {
        name: "the feed of another",
        play: rules::feed_of_another,
    },
];

/// [notify-scenarios] What documents 003 and 004 tell of crashes, repeats and races, by name, with real crashes.
pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let house = House::open(stage)?;
    let mut outcome = Outcome::of(Report::default());
    let rounds = stage.size(5, 1);
    let mut played = Vec::new();
    for part in PARTS {
        for round in 1..=rounds {
            stage.note(&format!("{}, {round} of {rounds}", part.name));
            let went = house
                .enter(part.name)
                .and_then(|()| (part.play)(&house, &mut outcome));
            outcome.went_well(went.doing(|| part.name.to_owned()));
        }
        played.push(part.name);
    }
    outcome.went_well(house.settled());
    // What a listener holds is given back, and seen, when it stops.
    house.close()?;
    house.count()?.tell(&mut outcome);
    outcome.went_well(house.finds_faults());
    let left = house.ready()?;
    outcome.check(left == 0, || format!("{left} messages are left in the queues"));
    outcome.figure("rounds", rounds);
    outcome.figure("scenarios", played.len());
    outcome.figure("played", played);
    Ok(outcome)
}
