//! Every kind of wrong, planted into an account that is right, is caught, and nothing else is.

use super::{Arrived, Committed, JsonLines, Ledger, LedgerError, Report};

const KEYS: u64 = 4;
const TURNS: u64 = 25;

/// A hundred events over four keys.
fn committed() -> Vec<Committed> {
    let event = |turn, key| Committed::new(format!("{key}-{turn:02}"), format!("key-{key}"), turn);
    (1..=TURNS)
        .flat_map(|turn| (0..KEYS).map(move |key| event(turn, key)))
        .collect()
}

/// All of them at one destination, in order.
fn arrivals() -> Vec<Arrived> {
    let arrived = |event: Committed| Arrived::new(event.id, event.key, "d");
    committed().into_iter().map(arrived).collect()
}

fn account(arrivals: &[Arrived]) -> Report {
    let mut ledger = Ledger::new();
    committed().iter().for_each(|event| ledger.commit(event).unwrap());
    arrivals.iter().for_each(|arrived| ledger.arrive(arrived));
    ledger.report()
}

/// Lost, phantom, reordered, duplicate effects, under another key, duplicates.
fn figures(report: &Report) -> [u64; 6] {
    [
        report.lost,
        report.phantom,
        report.reordered,
        report.duplicate_effects,
        report.miskeyed,
        report.duplicates,
    ]
}

#[test]
fn a_sound_account_is_clean() {
    let report = account(&arrivals());
    assert_eq!(figures(&report), [0; 6]);
    assert!(report.is_clean() && report.examples.is_empty());
    assert_eq!((report.committed, report.arrived), (100, 100));
}

#[test]
fn a_dropped_event_is_lost() {
    let mut arrived = arrivals();
    let dropped = arrived.remove(40);
    let report = account(&arrived);
    assert_eq!(figures(&report), [1, 0, 0, 0, 0, 0]);
    assert_eq!(report.examples["lost"], [dropped.id]);
    assert!(!report.is_clean());
}

#[test]
fn a_parked_event_is_not_lost() {
    let mut ledger = Ledger::new();
    committed().iter().for_each(|event| ledger.commit(event).unwrap());
    arrivals()
        .iter()
        .skip(1)
        .for_each(|arrived| ledger.arrive(arrived));
    ledger.parked("0-01");
    assert!(ledger.report().is_clean());
}

#[test]
fn a_doubled_event_is_a_duplicate_and_no_fault_of_order() {
    let mut arrived = arrivals();
    arrived.push(arrived[0].clone());
    arrived.push(arrived[0].clone());
    let report = account(&arrived);
    assert_eq!(figures(&report), [0, 0, 0, 0, 0, 2]);
    assert!(report.is_clean(), "publishing is at least once");
}

#[test]
fn a_swapped_pair_is_reordered_once() {
    let mut arrived = arrivals();
    arrived.swap(8, 8 + KEYS as usize);
    let report = account(&arrived);
    assert_eq!(figures(&report), [0, 0, 1, 0, 0, 0]);
    assert_eq!(report.examples["reordered"], [arrivals()[8].id.clone()]);
}

#[test]
fn a_late_event_counts_once_however_many_passed_it() {
    let mut arrived = arrivals();
    let late = arrived.remove(0);
    arrived.push(late);
    assert_eq!(account(&arrived).reordered, 1);
}

#[test]
fn keys_lanes_and_destinations_have_their_own_order() {
    let mut other_keys = arrivals();
    other_keys.swap(0, 1);
    assert!(account(&other_keys).is_clean(), "two keys have no order to keep");

    let mut ledger = Ledger::new();
    ledger.commit(&Committed::new("slow", "k", 1)).unwrap();
    let high = Committed {
        lane: 1,
        ..Committed::new("urgent", "k", 2)
    };
    let scheduled = Committed {
        unordered: true,
        ..Committed::new("scheduled", "k", 3)
    };
    ledger.commit(&high).unwrap();
    ledger.commit(&scheduled).unwrap();
    ledger.commit(&Committed::new("last", "k", 4)).unwrap();
    for id in ["scheduled", "urgent", "slow", "last"] {
        ledger.arrive(&Arrived::new(id, "k", "d"));
    }
    // Another destination, at which the last came first.
    for id in ["last", "slow"] {
        ledger.arrive(&Arrived::new(id, "k", "e"));
    }
    assert_eq!(figures(&ledger.report()), [0, 0, 1, 0, 0, 0]);
}

#[test]
fn an_event_of_nobody_is_a_phantom() {
    let mut arrived = arrivals();
    arrived.push(Arrived::new("rolled-back", "key-0", "d"));
    arrived.push(Arrived::new("rolled-back", "key-0", "d"));
    let report = account(&arrived);
    assert_eq!(figures(&report), [0, 1, 0, 0, 0, 0]);
    assert_eq!(report.examples["phantom"], ["rolled-back"]);
}

#[test]
fn an_event_under_another_key_is_noticed() {
    let mut arrived = arrivals();
    arrived[3].key = "key-9".into();
    assert_eq!(figures(&account(&arrived)), [0, 0, 0, 0, 1, 0]);
}

#[test]
fn a_second_effect_is_noticed_by_consumer() {
    let mut ledger = Ledger::new();
    ledger.commit(&Committed::new("e", "k", 1)).unwrap();
    ledger.arrive(&Arrived::new("e", "k", "d"));
    ledger.effect("invoices", "e");
    ledger.effect("mails", "e");
    assert!(ledger.report().is_clean());
    ledger.effect("mails", "e");
    assert_eq!(ledger.report().duplicate_effects, 1);
}

#[test]
fn an_event_missing_at_one_of_two_destinations_is_lost() {
    let mut ledger = Ledger::expecting(["d", "e"]);
    committed().iter().for_each(|event| ledger.commit(event).unwrap());
    for arrived in arrivals() {
        ledger.arrive(&arrived);
        if arrived.id != "2-07" {
            ledger.arrive(&Arrived::new(arrived.id, arrived.key, "e"));
        }
    }
    assert_eq!(figures(&ledger.report()), [1, 0, 0, 0, 0, 0]);
}

#[test]
fn files_are_read_back_and_a_torn_last_line_is_forgiven() {
    let folder = crate::process::scratch("ledger").unwrap();
    let mut file = JsonLines::create(&folder.path().join("committed.jsonl")).unwrap();
    committed().iter().for_each(|event| file.write(event).unwrap());
    file.flush().unwrap();
    let path = folder.path().join("arrived.jsonl");
    let (first, second) = (arrivals()[..60].to_vec(), arrivals()[60..].to_vec());
    let mut file = JsonLines::create(&path).unwrap();
    first.iter().for_each(|line| file.write(line).unwrap());
    drop(file);
    // The consumer dies in the middle of a line …
    let mut torn = std::fs::read(&path).unwrap();
    torn.extend(b"{\"id\":\"0-1");
    std::fs::write(&path, torn).unwrap();
    let report = Ledger::read(folder.path()).unwrap().report();
    assert_eq!((report.lost, report.torn), (40, 1));
    // … and goes on after its restart.
    let mut file = JsonLines::append(&path).unwrap();
    second.iter().for_each(|line| file.write(line).unwrap());
    file.flush().unwrap();
    let report = Ledger::read(folder.path()).unwrap().report();
    assert!(report.is_clean() && report.arrived == 100, "{report}");
}

#[test]
fn a_line_that_is_not_one_is_named() {
    let mut ledger = Ledger::new();
    let lines = "{\"id\":\"a\",\"key\":\"k\",\"n\":1}\n{\"id\":\"b\"}\n";
    let error = ledger
        .read_committed(lines.as_bytes(), "committed.jsonl")
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 2 of committed.jsonl is not a line of the ledger"
    );
    let twice = ledger.commit(&Committed::new("a", "k", 2)).unwrap_err();
    assert!(matches!(twice, LedgerError::CommittedTwice(id) if id == "a"));
}

#[test]
fn a_report_names_a_few_offenders_and_serialises() {
    let report = account(&arrivals()[..50]);
    assert_eq!(report.lost, 50);
    assert_eq!(report.examples["lost"].len(), 5);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["lost"], 50);
    assert!(report.to_string().contains("lost 50"), "{report}");
}

#[test]
fn a_repeat_of_the_queue_is_no_duplicate_of_the_relay() {
    let mut arrived = arrivals();
    let mut again = arrived[7].clone();
    arrived.push(again.clone());
    again.redelivered = true;
    arrived.push(again);
    let report = account(&arrived);
    assert_eq!((report.duplicates, report.redelivered), (1, 1));
    // A first arrival counts as such, however often the queue tried before.
    let mut arrived = arrivals();
    arrived[3].redelivered = true;
    assert_eq!(account(&arrived).redelivered, 0);
}
