//! The simulator itself: that a seed decides a run, that the engine passes, and that the checkers bite.

use postrider_sim::{Fault, Faults, Plant, run};

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [1, 17, 4_242] {
        let first = run(seed, None, true);
        let second = run(seed, None, true);
        assert!(!first.trace.is_empty());
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

/// Fault B5.
#[test]
fn no_promise_is_broken_and_every_kind_of_fault_happens() {
    let mut faults = Faults::default();
    for seed in 20_000..20_150 {
        let outcome = run(seed, None, false);
        assert_eq!(outcome.violations, Vec::<String>::new(), "seed {seed}");
        assert!(outcome.events > 0);
        faults.add(&outcome.faults);
    }
    // Deaths by a row and changes of configuration are rare by design; the full run counts them.
    let rare = [Fault::ProcessKiller, Fault::Reconfigured];
    for fault in Fault::ALL.iter().filter(|fault| !rare.contains(fault)) {
        assert!(faults.of(*fault) > 0, "{} never happened", fault.as_str());
    }
}

#[test]
fn a_planted_bug_of_every_promise_is_found() {
    let plants = [
        Plant::SettleBeforeConfirm,
        Plant::FlagsTrusted,
        Plant::ReadBehindLastRow,
        Plant::NoFence,
        Plant::ChargedInOutage,
        Plant::RedriveNewestFirst,
        Plant::EditIgnored,
        Plant::LimitIgnored,
        Plant::PauseKeyIgnored,
        Plant::ReplayLiveKey,
        Plant::SweepForEver,
    ];
    for plant in plants {
        let found = (1..=200).any(|seed| !run(seed, Some(plant), false).violations.is_empty());
        assert!(found, "{} was not found", plant.as_str());
    }
}

#[test]
fn every_plant_has_a_name_of_its_own() {
    for plant in Plant::ALL {
        assert_eq!(Plant::parse(plant.as_str()), Some(*plant));
        assert!(plant.what().ends_with('.'));
    }
    assert!(Plant::ALL.len() >= 15);
}

/// What they found is told by the commits that mended it.
#[test]
fn seeds_that_once_failed_pass() {
    for seed in [304, 1_621, 1_787, 2_239, 4_621, 4_885, 4_982, 6_607, 8_848] {
        assert_eq!(
            run(seed, None, false).violations,
            Vec::<String>::new(),
            "seed {seed}"
        );
    }
}
