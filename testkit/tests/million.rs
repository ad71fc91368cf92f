//! An account of a million events fits into a few hundred megabytes. A test binary of its own, so that the peak is
//! its own.

use postrider_testkit::ledger::{Arrived, Committed, Ledger};
use postrider_testkit::process::peak_rss_mib;

const EVENTS: u64 = 1_000_000;
const KEYS: u64 = 10_000;
const MOST_MIB: u64 = 300;

#[test]
fn a_million_events_are_counted_in_little_memory() {
    let mut ledger = Ledger::new();
    let id = |n| format!("01890a5d-ac96-774b-bcce-{n:012x}");
    let key = |n| format!("ORDER/{}", n % KEYS);
    for n in 0..EVENTS {
        let event = Committed::new(id(n), key(n), n / KEYS);
        ledger.commit(&event).unwrap();
    }
    for n in 0..EVENTS {
        ledger.arrive(&Arrived::new(id(n), key(n), "d"));
        ledger.effect("consumer", &id(n));
    }
    let report = ledger.report();
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.committed, report.arrived), (EVENTS, EVENTS));
    let peak = peak_rss_mib(std::process::id()).unwrap();
    println!("peak: {peak} MiB");
    assert!(peak < MOST_MIB, "{peak} MiB");
}
