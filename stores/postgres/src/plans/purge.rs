//! How purges find what is old, and ask whether the events of first payloads are gone.

use super::Planner;
use crate::ident::Tables;
use crate::upkeep::IS_GONE;

/// A purge by hand opens no partition that is younger than what it removes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_passes_young_partitions_over() {
    let planner = Planner::new().await;
    let plan = planner.explain("purge(259200, 10, NULL, 1000)").await;
    let removed = plan.matches("Subplans Removed: 9").count();
    assert_eq!(removed, 2, "on both sides of the join:\n{plan}");
    // As people's statements are planned.
    planner.run("SET enable_seqscan = off").await;
    let plan = planner.explain("purge(-86400, 10, NULL, 1000)").await;
    assert!(
        !plan.contains("Bitmap Index Scan"),
        "no index leads to what is old:\n{plan}"
    );
}

/// The history is by far the largest table, and first payloads are few: each is looked up by its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_of_first_payloads_looks_places_up() {
    let planner = Planner::new().await;
    // As people's statements are planned, not as those of relays are.
    planner
        .run(
            "RESET enable_bitmapscan; RESET enable_hashjoin; RESET enable_mergejoin; RESET plan_cache_mode;
             SET enable_seqscan = off",
        )
        .await;
    planner
        .run(
            "INSERT INTO public.outbox_original (seq, destination, version, payload, actor)
             SELECT n * 100, 'd', 2, '{}', 'ann' FROM generate_series(1, 400) n;
             INSERT INTO public.outbox_sent (seq, destination, event_id, event_type, aggregate_type, aggregate_id,
                 payload, outcome, published_at)
             SELECT n, 'd', 'id-' || n, 'T', 'ORDER', n::text, repeat('x', 200), 'published', now()
             FROM generate_series(1, 20000) n",
        )
        .await;
    let sql = Tables::default().sql(&format!(
        "SELECT ctid FROM {{outbox_original}} t WHERE {IS_GONE}t.edited_at < now() + interval '1 hour' LIMIT 1000"
    ));
    for statistics in [
        "DISCARD PLANS",
        "SELECT brin_summarize_new_values(c.oid) FROM pg_catalog.pg_class c
         WHERE c.relname LIKE 'outbox_sent%seq%' AND c.relkind = 'i'",
        "ANALYZE public.outbox_sent",
    ] {
        planner.run(statistics).await;
        let plan = planner.plan(&sql).await;
        assert!(!plan.contains("Seq Scan on outbox_sent"), "{statistics}:\n{plan}");
        assert!(
            plan.contains("Recheck Cond: (seq = t.seq)"),
            "{statistics}:\n{plan}"
        );
        assert!(
            plan.starts_with("Limit") && super::rows(&plan) == 200,
            "{statistics}:\n{plan}"
        );
    }
}
