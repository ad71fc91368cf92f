//! `postrider listen` whose calls go astray: to a path that is not there, or without permission.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use crate::endpoint::Endpoint;
use crate::faults::until;
use crate::support::{Place, Running};

/// More than any event is allowed.
const CALLS: usize = 30;

/// Fault D10. An expired token or a route that is missing during a deployment is no fault of any event.
#[test]
fn what_gets_through_for_nobody_is_nobodys_fault() {
    for status in [401, 403, 404, 405] {
        let answer = Arc::new(AtomicU16::new(status));
        let taken = Arc::new(Mutex::new(BTreeSet::new()));
        let (answers, takes) = (Arc::clone(&answer), Arc::clone(&taken));
        let endpoint = Endpoint::start(move |call, _| {
            let status = answers.load(Ordering::SeqCst);
            if status == 200 {
                takes.lock().unwrap().insert(call.id().to_owned());
            }
            (status, "")
        });
        let config = format!(
            "{}
[broker.dead]
url = \"file:dead.jsonl\"
[admin]
listen = \"off\"
[listener.mailer]
url = \"{}\"
broker = \"events\"
dead_letters = {{ broker = \"dead\" }}
retry = {{ base = \"1ms\", max = \"5ms\" }}
",
            crate::support::ORDERS_ONLY,
            endpoint.url()
        );
        let place = Place::ready(&config);
        for n in 1..=2 {
            place
                .send(&format!("order-{n}"), &format!("ORDER/{n}"), "{}")
                .expect(0);
        }
        place.run(&["run", "--until-empty"]).expect(0);
        let running = Running::start(&place, &["listen", "--migrate", "--json"]);
        until("more calls than attempts", || endpoint.calls().len() > CALLS);
        answer.store(200, Ordering::SeqCst);
        until("both are taken", || taken.lock().unwrap().len() == 2);
        let report = running.stop().expect(0).json();
        assert_eq!(
            (&report["called"], &report["dead_letters"]),
            (&2.into(), &0.into()),
            "{status}"
        );
    }
}
