//! What somebody wrote by hand into tables that a relay reads: it stops nothing.

use postrider_core::{Console, Store};

use crate::support::{Db, heartbeat};

#[tokio::test]
async fn a_name_that_is_no_text_stops_nothing() {
    let db = Db::new().await;
    db.sql(
        "INSERT INTO outbox_control (destination, paused, actor) VALUES (CAST(x'fffe' AS TEXT), 1, CAST(x'ff' AS TEXT));
         INSERT INTO outbox_audit (actor, action, detail, touched, refused, job_id, event_id)
             VALUES (CAST(x'ff' AS TEXT), 'pause', '{}', 0, 0, CAST(x'ff' AS TEXT), CAST(x'ff' AS TEXT));",
    );
    let standing = db.store.heartbeat(heartbeat("one")).await.expect("a heartbeat");
    assert!(!standing.controls.paused, "it is no name of the outbox");
    assert_eq!(db.store.controls().await.expect("controls").len(), 1);
    assert!(
        !db.store
            .audit(10, None)
            .await
            .expect("the audit")
            .entries
            .is_empty()
    );
}

#[tokio::test]
async fn a_limit_out_of_range_is_none_and_stops_nothing() {
    let db = Db::new().await;
    for number in ["0", "-1", "4294967296", "9223372036854775807"] {
        db.sql(&format!(
            "INSERT OR REPLACE INTO outbox_control (destination, max_rate, max_in_flight) VALUES ('d', {number}, 7)"
        ));
        let standing = db.store.heartbeat(heartbeat("one")).await.expect("a heartbeat");
        let limits = standing.controls.limits[&"d".into()];
        assert_eq!(
            (limits.max_rate, limits.max_in_flight),
            (None, Some(7)),
            "{number}"
        );
        let shown = db.store.controls().await.expect("controls").remove(0);
        assert_eq!(shown.limits, limits, "{number}");
    }
}

#[tokio::test]
async fn a_job_that_is_no_text_hides_no_other() {
    let db = Db::new().await;
    let not_text = "CAST(x'ff' AS TEXT)";
    db.sql(&format!(
        r#"INSERT INTO outbox_job (id, kind, spec, state, actor, bound, begun_at, updated_at)
         VALUES ({not_text}, {not_text}, {not_text}, {not_text}, {not_text}, 0, 1, 1),
                ('one', 'redrive', '{{"filter":{{}}}}', 'paused', {not_text}, 0, 1, 1)"#
    ));
    let jobs = db.store.jobs(None, 10).await.expect("jobs");
    assert_eq!(jobs.len(), 1);
    assert_eq!((jobs[0].id.as_str(), jobs[0].actor.as_str()), ("one", "\u{fffd}"));
}

#[tokio::test]
async fn an_original_that_is_no_text_is_shown_as_far_as_it_can_be() {
    let db = Db::new().await;
    let not_text = "CAST(x'ff' AS TEXT)";
    db.sql(&format!(
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id) VALUES ('a', 'T', 'A', '1');
         INSERT INTO outbox_original SELECT seq, {not_text}, 2, {not_text}, NULL, {not_text}, {not_text}, 5 FROM outbox"
    ));
    let record = db.store.show("a".into()).await.expect("shown").remove(0);
    assert_eq!(record.original.expect("an original").actor, "\u{fffd}");
}
