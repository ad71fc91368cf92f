//! What people ask of an outbox, timed: every kind of filter, from both ends, with the counts and the groups beside.

use std::time::{Duration, Instant};

use postrider_core::{Console, Filter, List, Status};
use serde_json::{Value, json};

use crate::Failure;

/// How often each is asked.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long, default_value_t = 25)]
    times: u32,
}

/// Asks everything; answers the slowest, and which filters did not come to an end in one call.
pub(crate) async fn ask(store: &dyn Console, args: Args) -> Result<Value, Failure> {
    let mut worst = (String::new(), 0.0);
    let (mut medians, mut partial) = (Vec::new(), Vec::new());
    for (name, filter) in filters() {
        for newest_first in [true, false] {
            let list = List {
                newest_first,
                ..List::first(50, filter.clone())
            };
            let mut times = Vec::new();
            let mut short = false;
            for _ in 0..args.times {
                let began = Instant::now();
                let page = store.list(list.clone()).await?;
                times.push(began.elapsed());
                short = page.next.is_some() && page.events.len() < 50;
            }
            let name = format!("{name} {}", if newest_first { "newest" } else { "oldest" });
            let (middle, slow) = percentiles(times);
            eprintln!(
                "{name}: {middle:.1} ms, {slow:.1} ms{}",
                if short { ", short" } else { "" }
            );
            medians.push(middle);
            if short {
                partial.push(name.clone());
            }
            if slow > worst.1 {
                worst = (name, slow);
            }
        }
    }
    let (mut stats, mut groups) = (Vec::new(), Vec::new());
    let mut stats_read = 0;
    for _ in 0..args.times {
        let read = bytes_read()?;
        let began = Instant::now();
        store.stats().await?;
        stats.push(began.elapsed());
        stats_read = stats_read.max(bytes_read()? - read);
        let began = Instant::now();
        store.groups().await?;
        groups.push(began.elapsed());
    }
    medians.sort_by(f64::total_cmp);
    Ok(json!({
        "filters": medians.len(),
        "median_ms": medians.get(medians.len() / 2),
        "worst": worst.0,
        "worst_p95_ms": worst.1,
        "stats_read_bytes": stats_read,
        "stats_p95_ms": percentiles(stats).1,
        "groups_p95_ms": percentiles(groups).1,
        "partial": partial,
    }))
}

/// What this process has read so far: a store that is a library reads its file by itself, page by page, so that a scan
/// of a table shows.
fn bytes_read() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let read = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    Ok(read.ok_or("/proc/self/io does not say what was read")?.parse()?)
}

/// The middle and the slow end, in milliseconds.
fn percentiles(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    (at(50).as_secs_f64() * 1e3, at(95).as_secs_f64() * 1e3)
}

/// Frequent, rare and absent ones of each kind, and some pairs.
fn filters() -> Vec<(&'static str, Filter)> {
    let none = Filter::default;
    let text = |value: &str| Some(value.to_owned());
    let day = Duration::from_secs(86_400);
    let mut all = vec![
        ("all", none()),
        (
            "id sent",
            Filter {
                event_id: vec!["sent-1000".into()],
                ..none()
            },
        ),
        (
            "id parked",
            Filter {
                event_id: vec!["parked-1000".into()],
                ..none()
            },
        ),
        (
            "id nobody",
            Filter {
                event_id: vec!["nobody".into()],
                ..none()
            },
        ),
        (
            "key",
            Filter {
                key: vec!["ORDER/77".to_owned()],
                ..none()
            },
        ),
        (
            "key common",
            Filter {
                key: vec!["ORDER/common".to_owned()],
                ..none()
            },
        ),
        (
            "key of few",
            Filter {
                key: vec!["LINE/3".to_owned()],
                ..none()
            },
        ),
        (
            "key nobody",
            Filter {
                key: vec!["ORDER/none".to_owned()],
                ..none()
            },
        ),
        (
            "type",
            Filter {
                event_type: vec!["Type7".to_owned()],
                ..none()
            },
        ),
        (
            "type rare",
            Filter {
                event_type: vec!["Rare".to_owned()],
                ..none()
            },
        ),
        (
            "type retired",
            Filter {
                event_type: vec!["Retired".to_owned()],
                ..none()
            },
        ),
        (
            "type nobody",
            Filter {
                event_type: vec!["None".to_owned()],
                ..none()
            },
        ),
        (
            "destination",
            Filter {
                destination: Some("d1".into()),
                ..none()
            },
        ),
        (
            "destination nobody",
            Filter {
                destination: Some("none".into()),
                ..none()
            },
        ),
        (
            "kind",
            Filter {
                error_kind: text("rejected"),
                ..none()
            },
        ),
        (
            "kind nobody",
            Filter {
                error_kind: text("no_route"),
                ..none()
            },
        ),
        (
            "group",
            Filter {
                error_group: text("group7"),
                ..none()
            },
        ),
        (
            "group nobody",
            Filter {
                error_group: text("none"),
                ..none()
            },
        ),
        (
            "failing",
            Filter {
                failing_for: Some(Duration::from_secs(60)),
                ..none()
            },
        ),
        (
            "text",
            Filter {
                text: text("number 7"),
                ..none()
            },
        ),
        (
            "text nobody",
            Filter {
                text: text("nowhere"),
                ..none()
            },
        ),
        (
            "old",
            Filter {
                older_than: Some(3 * day),
                ..none()
            },
        ),
        (
            "young",
            Filter {
                newer_than: Some(day / 24),
                ..none()
            },
        ),
        (
            "dead of a type",
            Filter {
                status: vec![Status::DeadLetter],
                event_type: vec!["Type7".to_owned()],
                ..none()
            },
        ),
        (
            "dead of a kind",
            Filter {
                status: vec![Status::DeadLetter],
                error_kind: text("rejected"),
                ..none()
            },
        ),
        (
            "dead text",
            Filter {
                status: vec![Status::DeadLetter],
                text: text("nowhere"),
                ..none()
            },
        ),
        (
            "sent of a key",
            Filter {
                status: vec![Status::Published],
                key: vec!["ORDER/77".to_owned()],
                ..none()
            },
        ),
        (
            "sent rare",
            Filter {
                status: vec![Status::Published],
                event_type: vec!["Rare".to_owned()],
                ..none()
            },
        ),
    ];
    let states = [
        ("pending", Status::Pending),
        ("retrying", Status::Retrying),
        ("waiting", Status::Waiting),
        ("held", Status::Held),
        ("scheduled", Status::Scheduled),
        ("dead", Status::DeadLetter),
        ("published", Status::Published),
        ("discarded", Status::Discarded),
    ];
    all.extend(states.map(|(name, status)| {
        let filter = Filter {
            status: vec![status],
            ..none()
        };
        (name, filter)
    }));
    all
}
