//! The demo keeps every promise, and would say so if it did not.

use crate::support::Place;

#[test]
fn it_commits_and_accounts_for_every_order() {
    let place = Place::empty();
    let ran = place.run(&["demo", "--for", "2s", "--json"]).expect(0);
    assert_eq!(ran.out.lines().count(), 1);
    let order = [
        "committed",
        "rolled_back",
        "published",
        "effects",
        "lost",
        "phantom",
        "reordered",
        "duplicate_effects",
        "p50_ms",
        "p99_ms",
    ];
    let places: Vec<usize> = order
        .iter()
        .map(|key| ran.out.find(&format!("\"{key}\"")).unwrap())
        .collect();
    assert!(places.is_sorted());
    let account = ran.json();
    for zero in ["lost", "phantom", "reordered", "duplicate_effects"] {
        assert_eq!(account[zero], 0, "{account}");
    }
    assert!(account["committed"].as_u64() > Some(50), "{account}");
    assert!(account["rolled_back"].as_u64() > Some(0), "{account}");
    assert_eq!(account["committed"], account["published"]);
    assert_eq!(account["committed"], account["effects"]);
    assert!(account["p50_ms"].as_f64() > Some(0.0), "{account}");
}

#[test]
fn it_tells_people_plainly_when_not_on_a_terminal() {
    let place = Place::empty();
    let ran = place
        .run(&["demo", "--for", "1500ms", "--dir", "kept"])
        .expect(0)
        .says("exactly once, in order");
    assert!(!ran.out.contains('\u{1b}'), "no escape sequences");
    assert!(place.path("kept/service.db").exists());
    place
        .run(&["demo", "--for", "1s", "--dir", "kept"])
        .expect(2)
        .complains("another run");
}

#[test]
fn ctrl_c_ends_it_with_an_account() {
    let place = Place::empty();
    let ran = place
        .shell("timeout --preserve-status --signal=INT 2 postrider demo --json")
        .expect(0);
    assert_eq!(ran.json()["lost"], 0);
}
