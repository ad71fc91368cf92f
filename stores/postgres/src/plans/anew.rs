//! How a settle finds what follows from a row that is routed anew: what stands where it goes, and who comes behind it.

use super::{Planner, check, check_grown, check_settle};

impl Planner {
    /// Routes a row of those that are [held](Self::hold) to another destination, where it stands already.
    async fn route_anew(&self, place: u64) -> String {
        self.run(&format!(
            "UPDATE public.outbox_parked SET edited = version WHERE seq = {place};
             INSERT INTO public.outbox_original (seq, destination, version, payload, actor)
             SELECT seq, destination, version, payload, 'ann' FROM public.outbox_parked WHERE seq = {place};
             INSERT INTO public.outbox_parked (seq, destination, shard, lane, order_key, line, event_id, event_type,
                 aggregate_type, aggregate_id, payload, version, dead, next_attempt_at, attempts, failures, maybe_sent,
                 updated_at, enqueued_at)
             SELECT seq, 'e', shard, lane, order_key, line, event_id, event_type, aggregate_type, aggregate_id, payload,
                 version, dead, next_attempt_at, attempts, failures, maybe_sent, updated_at, enqueued_at
             FROM public.outbox_parked WHERE seq = {place}"
        ))
        .await;
        let entries = format!(
            r#"{{"{place}:d":{{"n":1,"outcome":"split","version":1,"beside":[{{"destination":"e","dead":false,"wait":0,
                "attempts":0,"failures":0,"maybe_sent":true}}]}}}}"#
        );
        self.settle_by("settle_anew", 100, (place, &entries)).await
    }
}

/// How many rows the step of a plan that writes a table wrote.
fn written(plan: &str, step: &str) -> u64 {
    let line = plan.lines().find(|line| line.contains(step));
    line.map_or_else(|| panic!("no {step}:\n{plan}"), super::rows)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_routed_anew_turns_no_plan() {
    let planner = Planner::new().await;
    check_settle(&planner.route_anew(1_000_001).await);
    planner.hold(20_000).await;
    let stages = [
        "ANALYZE public.outbox",
        "DISCARD PLANS",
        "ANALYZE public.outbox_parked",
        "ANALYZE public.outbox_original",
    ];
    for (place, stage) in (1_000_005..).zip(stages) {
        planner.run(stage).await;
        let plan = planner.route_anew(place).await;
        check(&plan);
        check_settle(&plan);
        if stage != "ANALYZE public.outbox" {
            // Before that the plan is the one that was made for empty tables, as it is until the store sees them grow.
            check_grown(&plan);
        }
        assert_eq!(written(&plan, "Delete on outbox_parked o"), 1, "{plan}");
        assert_eq!(
            written(&plan, "Insert on outbox_original"),
            0,
            "a data-modifying step gives no rows:\n{plan}"
        );
    }
    let kept = "SELECT count(*) FROM public.outbox_original WHERE destination = 'e' AND version = 2";
    let led = "SELECT count(*) FROM public.outbox_parked WHERE redriven";
    for sql in [kept, led] {
        let found = planner.session.client.query_one(sql, &[]).await.unwrap();
        assert_eq!(found.get::<_, i64>(0), stages.len() as i64, "{sql}");
    }
}
