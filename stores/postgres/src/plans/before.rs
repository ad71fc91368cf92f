//! The plans of relays that are one version behind.

use super::{Planner, check_read, rows};

/// Fault A24. Relays of the version before this one run on these tables too. Their read goes through rows in lines and
/// rows that stand alone from head to head, in one index that holds both; with any other it would sort all that is
/// parked, or walk through it, once for every line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_read_of_the_version_before_finds_its_index() {
    let planner = Planner::new().await;
    planner.schedule(5_000).await;
    planner.hold(5_000).await;
    for analysed in [false, true] {
        planner
            .run(match analysed {
                true => "ANALYZE public.outbox_parked",
                false => "DISCARD PLANS",
            })
            .await;
        let plan = planner.ask("read_before", 32).await;
        check_read(&plan);
        assert!(plan.contains("outbox_parked_live"), "from head to head:\n{plan}");
        let sorted = plan
            .lines()
            .any(|line| line.contains("Sort Key: p.shard") || line.contains("Sort Key: p.destination"));
        assert!(!sorted, "what is parked is sorted:\n{plan}");
        let lines: Vec<&str> = plan.lines().map(str::trim).collect();
        for pair in lines
            .windows(2)
            .filter(|pair| pair[0].contains("outbox_parked_live"))
        {
            assert!(
                pair[1].starts_with("Index Cond: ((ROW(shard,"),
                "entered by its first column:\n{plan}"
            );
            let many = rows(pair[0]);
            assert!(many <= 65, "{many} rows are walked through at once:\n{plan}");
        }
    }
}
