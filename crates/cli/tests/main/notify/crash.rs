//! A process that is killed in the middle: whoever starts next goes on, and nobody is told anything twice.

use std::collections::BTreeSet;

use super::{config, feed, know, order, pushed};
use crate::endpoint::Endpoint;
use crate::faults::until;
use crate::http::port;
use crate::support::{Place, Running};

const ORDERS: usize = 60;

#[test]
fn killed_in_the_middle_nothing_is_missing_and_nothing_twice() {
    let (place, port) = (Place::empty(), port());
    place.write("postrider.toml", &config(port));
    // Pushes wait a little, so that the end comes while some are under way.
    let endpoint = Endpoint::start(|_, _| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        (200, "")
    });
    let mut running = Running::start(&place, &["notify", "run", "--migrate"]);
    know(port, "ada", Some(&endpoint.url()));
    let ids: Vec<String> = (0..ORDERS).map(|n| format!("order-{n:02}")).collect();
    for (n, id) in ids.iter().enumerate() {
        order(&place, id, "ada");
        if n % 20 == 10 {
            until("some were told", || !feed(port, "ada").is_empty());
            // Dropping it is a kill -9.
            running.end();
            running = Running::start(&place, &["notify", "run"]);
        }
    }
    until("all are in the feed", || feed(port, "ada").len() >= ORDERS);
    let all = || {
        pushed(&endpoint)
            .into_iter()
            .map(|(_, event)| event)
            .collect::<BTreeSet<_>>()
    };
    until("all were pushed", || all().len() >= ORDERS);
    running.stop().expect(0);

    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let told: Vec<String> = connection
        .prepare("SELECT event_id FROM notification ORDER BY event_id")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(told, ids, "each once");
    // A push may come twice; then it says so by its id.
    let pairs: BTreeSet<(String, String)> = pushed(&endpoint).into_iter().collect();
    assert_eq!(pairs.len(), ORDERS, "{pairs:?}");
}
