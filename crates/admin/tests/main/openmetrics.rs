//! `/metrics` read by the letter of the OpenMetrics text format.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use postrider_admin::Options;
use postrider_core::ErrorKind;
use postrider_memory::MemorySink;
use postrider_testkit::MemoryStore;
use tokio_util::sync::CancellationToken;

use crate::support::{event, served, until, watched};

/// Samples by their whole name with labels. Panics at anything that the format does not allow.
fn parse(text: &str) -> BTreeMap<String, f64> {
    assert!(text.ends_with("# EOF\n"), "ends with # EOF");
    let (mut types, mut samples): (BTreeMap<&str, &str>, BTreeMap<String, f64>) = Default::default();
    let (mut family, mut done) = ("", BTreeSet::new());
    for line in text.lines() {
        if line == "# EOF" {
            continue;
        }
        if let Some(rest) = line.strip_prefix("# ") {
            let (word, rest) = rest.split_once(' ').expect("a word");
            let (name, value) = rest.split_once(' ').expect("a name and a value");
            assert!(["HELP", "TYPE", "UNIT"].contains(&word), "{line}");
            if name != family {
                assert!(done.insert(name), "{name} is not in one piece");
                family = name;
            }
            if word == "TYPE" {
                assert!(["counter", "gauge", "histogram"].contains(&value), "{line}");
                types.insert(name, value);
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').map_or((series, ""), |(name, labels)| {
            (name, labels.strip_suffix('}').expect("closed labels"))
        });
        let suffixes: &[&str] = match types[family] {
            "counter" => &["_total", "_created"],
            "histogram" => &["_bucket", "_sum", "_count", "_created"],
            _ => &[""],
        };
        let suffix = name
            .strip_prefix(family)
            .unwrap_or_else(|| panic!("{name} outside {family}"));
        assert!(
            suffixes.contains(&suffix),
            "{line}: {family} is a {}",
            types[family]
        );
        check_labels(labels);
        let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(
            samples.insert(series.to_owned(), value).is_none(),
            "twice: {line}"
        );
    }
    samples
}

fn check_labels(labels: &str) {
    let mut rest = labels;
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").expect("name=\"value\"");
        assert!(
            name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
            "{labels}"
        );
        let mut escaped = false;
        let end = value.char_indices().find_map(|(at, c)| match c {
            _ if escaped => {
                assert!(['n', '\\', '"'].contains(&c), "{labels}");
                escaped = false;
                None
            }
            '\\' => {
                escaped = true;
                None
            }
            '"' => Some(at),
            _ => None,
        });
        let end = end.unwrap_or_else(|| panic!("not closed: {labels}"));
        rest = value[end + 1..].strip_prefix(',').unwrap_or(&value[end + 1..]);
    }
}

/// Faults H2, H3 and H24.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_openmetrics_and_say_what_happened() {
    let (admin, _serving, address) = served(Options {
        max_types: 3,
        ..Options::default()
    });
    let (store, sink) = (MemoryStore::new(4), MemorySink::new());
    let relay = watched(
        &admin,
        Arc::new(store.clone()),
        &store,
        Arc::new(sink.clone()),
        None,
    );
    let before = until(address, "/metrics", |answer| answer.code == 200).await;
    let head = before.head.to_lowercase();
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{head}"
    );
    let zero = parse(&before.body);
    assert_eq!(
        zero["postrider_published_total{outbox=\"orders\",route=\"default\"}"],
        0.0
    );

    sink.refuse_when(|message| (message.event_id.as_str() == "large").then_some(ErrorKind::TooLarge));
    store.enqueue(event("quoted", "a\"b\\c")).unwrap();
    store.enqueue(event("large", "Large")).unwrap();
    for n in 0..20 {
        store
            .enqueue(event(&format!("e{n}"), &format!("Type{n}")))
            .unwrap();
    }
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (stop, relay) = (stop.clone(), relay.clone());
        async move { relay.run(stop).await }
    });
    let done = until(address, "/metrics", |answer| {
        let samples = parse(&answer.body);
        samples["postrider_published_total{outbox=\"orders\",route=\"default\"}"] == 21.0
            && samples.get("postrider_parked{outbox=\"orders\",state=\"dead\"}") == Some(&1.0)
            && samples.get("postrider_backlog{outbox=\"orders\"}") == Some(&0.0)
    })
    .await;
    let samples = parse(&done.body);
    let place = "{outbox=\"orders\",route=\"default\"}";
    assert_eq!(samples[&format!("postrider_failed_total{place}")], 1.0);
    assert_eq!(samples[&format!("postrider_circuit_open{place}")], 0.0);
    assert_eq!(
        samples[&format!("postrider_publish_latency_seconds_count{place}")],
        21.0
    );
    let infinity =
        "postrider_publish_latency_seconds_bucket{le=\"+Inf\",outbox=\"orders\",route=\"default\"}";
    assert_eq!(samples[infinity], 21.0);
    assert_eq!(
        samples["postrider_health{outbox=\"orders\"}"], 1.0,
        "one is dead: degraded"
    );
    assert_eq!(samples["postrider_oldest_age_seconds{outbox=\"orders\"}"], 0.0);
    assert_eq!(samples["postrider_dropped_total{outbox=\"orders\"}"], 0.0);
    let reads = "postrider_database_errors_total{outbox=\"orders\",doing=\"read\"}";
    assert_eq!(samples[reads], 0.0);

    let types = |name: &str| {
        let prefix = format!("{name}{{");
        samples
            .iter()
            .filter(|(series, _)| series.starts_with(&prefix))
            .map(|(_, value)| *value)
            .collect::<Vec<_>>()
    };
    let succeeded = types("outbox_publish_success_total");
    assert!(succeeded.len() <= 4, "three types and the others: {succeeded:?}");
    assert_eq!(succeeded.iter().sum::<f64>(), 21.0);
    assert!(samples["outbox_publish_success_total{type=\"other\"}"] >= 17.0);
    assert_eq!(types("outbox_publish_failure_total").iter().sum::<f64>(), 1.0);
    assert!(!done.body.contains("canary-payload"));
    stop.cancel();
    running.await.unwrap();
}
