//! What may happen to an outbox.

use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Insert {
        key: u8,
        priority: i32,
        tx: usize,
    },
    Finish {
        tx: usize,
        commit: bool,
    },
    Beat {
        relay: usize,
        remembers: bool,
        releases: bool,
        claims: bool,
    },
    Settle {
        relay: usize,
        row: usize,
        how: How,
    },
    SettleParked {
        relay: usize,
        row: usize,
        how: How,
        stale: bool,
    },
    Redrive {
        row: usize,
    },
    Discard {
        row: usize,
    },
    Wait {
        millis: u16,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Sent,
    Duplicate,
    Park {
        destination: Option<u8>,
        dead: bool,
        wait: u16,
    },
    Split,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let how = || {
        prop_oneof![
            2 => Just(How::Sent),
            1 => Just(How::Duplicate),
            4 => (prop::option::weighted(0.8, 0..2u8), prop::bool::weighted(0.2), 0..300u16)
                .prop_map(|(destination, dead, wait)| How::Park { destination, dead, wait }),
            1 => Just(How::Split),
        ]
    };
    prop_oneof![
        6 => (0..4u8, -1..=1i32, 0..3usize).prop_map(|(key, priority, tx)| Step::Insert { key, priority, tx }),
        4 => (0..3usize, prop::bool::weighted(0.8)).prop_map(|(tx, commit)| Step::Finish { tx, commit }),
        3 => (0..3usize, prop::bool::weighted(0.8), prop::bool::weighted(0.2), prop::bool::weighted(0.9))
            .prop_map(|(relay, remembers, releases, claims)| Step::Beat { relay, remembers, releases, claims }),
        6 => (0..3usize, any::<usize>(), how()).prop_map(|(relay, row, how)| Step::Settle { relay, row, how }),
        6 => (0..3usize, any::<usize>(), how(), prop::bool::weighted(0.2))
            .prop_map(|(relay, row, how, stale)| Step::SettleParked { relay, row, how, stale }),
        1 => any::<usize>().prop_map(|row| Step::Redrive { row }),
        1 => any::<usize>().prop_map(|row| Step::Discard { row }),
        2 => (0..400u16).prop_map(|millis| Step::Wait { millis }),
    ]
}
