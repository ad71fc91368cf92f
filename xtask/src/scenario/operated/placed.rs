//! Events as a service places them.

use postrider_testkit::ledger::Committed;
use serde_json::json;

/// An event that is sent.
pub(in crate::scenario) struct Placed {
    pub(in crate::scenario) id: String,
    pub(in crate::scenario) key: String,
    /// Orders are keyed by their aggregate; of any other type, events of several types can share a key.
    pub(in crate::scenario) aggregate_type: &'static str,
    /// Its place in its key, from 1 on.
    pub(in crate::scenario) n: u64,
    /// How long its payload is, beyond the place.
    pub(in crate::scenario) bytes: usize,
}

/// The type of aggregates whose events are keyed by them.
pub(in crate::scenario) const ORDER: &str = "ORDER";

impl Placed {
    /// A small event of an order.
    pub(in crate::scenario) fn order(id: String, key: String, n: u64) -> Self {
        Self {
            id,
            key,
            aggregate_type: ORDER,
            n,
            bytes: 0,
        }
    }

    pub(in crate::scenario) fn committed(&self) -> Committed {
        Committed::new(&self.id, &self.key, self.n)
    }

    /// The values of an order's row: id, types, aggregate and payload.
    pub(in crate::scenario) fn values(&self) -> String {
        let Self { id, key, n, .. } = self;
        format!("('{id}', 'OrderPlaced', 'ORDER', '{key}', '{{\"n\":{n}}}')")
    }

    /// The line that `send --lines` takes.
    pub(super) fn line(&self) -> String {
        let mut event = json!({
            "event_id": self.id,
            "event_type": "OrderPlaced",
            "aggregate_type": self.aggregate_type,
            "aggregate_id": self.key,
            "payload": { "n": self.n },
        });
        if self.aggregate_type != ORDER {
            event["event_key"] = json!(self.key);
        }
        if self.bytes > 0 {
            event["payload"]["pad"] = json!("x".repeat(self.bytes));
        }
        format!("{event}\n")
    }
}
