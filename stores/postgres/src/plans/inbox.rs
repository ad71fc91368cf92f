//! How the purge of an inbox finds its records.

use super::Planner;
use crate::Inbox;
use crate::ident::Tables;
use crate::inbox::{PURGE, PURGE_OF};

/// Fault D19. The oldest records may be those of a consumer that is gone, and most of one's own are to be kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_of_the_inbox_looks_at_what_it_removes() {
    let planner = Planner::new().await;
    planner.run(&Inbox::default().sql()).await;
    let tables = Tables::inbox();
    for (name, sql) in [("purge_of", PURGE_OF), ("purge_all", PURGE)] {
        planner
            .run(&format!("PREPARE {name} AS {}", tables.sql(sql)))
            .await;
    }
    planner
        .run(
            "INSERT INTO public.inbox SELECT c.name, n::text, NULL, clock_timestamp() - c.age
             FROM (VALUES ('gone', interval '60 days', 50000), ('billing', interval '40 days', 10),
                          ('billing', interval '1 day', 50000)) c(name, age, rows),
                  LATERAL generate_series(1, c.rows) n ON CONFLICT DO NOTHING",
        )
        .await;
    for statistics in ["DISCARD PLANS", "ANALYZE public.inbox"] {
        for mode in ["force_generic_plan", "force_custom_plan"] {
            planner.run(statistics).await;
            planner.run(&format!("SET plan_cache_mode = {mode}")).await;
            for (execute, index) in [
                ("purge_of(2592000, 1000, 'billing')", "inbox_consumer_time"),
                ("purge_all(2592000, 1000)", "inbox_time"),
            ] {
                planner.run("BEGIN").await;
                let plan = planner.explain(execute).await;
                planner.run("ROLLBACK").await;
                assert!(
                    [format!("using {index} on"), format!("Scan on {index} ")]
                        .iter()
                        .any(|step| plan.contains(step))
                        && !plan.contains("Rows Removed by Filter"),
                    "{statistics}, {mode}:\n{plan}"
                );
            }
        }
    }
}
