//! Single orders, placed by the scenario itself, as unusual as it wants them.

use super::Pair;
use crate::failure::Result;

/// An order with its event. Its key is the customer, whatever its line of business.
pub(in crate::scenario) struct Order<'a> {
    pub(in crate::scenario) id: &'a str,
    pub(in crate::scenario) customer: &'a str,
    /// The aggregate's type, which the route makes an address of.
    pub(in crate::scenario) line: &'a str,
    pub(in crate::scenario) payload: &'a str,
    /// As text: nobody checks it on the way in.
    pub(in crate::scenario) headers: Option<&'a str>,
}

impl Default for Order<'_> {
    fn default() -> Self {
        Self {
            id: "",
            customer: "",
            line: "SHOP0",
            payload: "{}",
            headers: None,
        }
    }
}

const PLACE: &str = "
    WITH turn AS (
        INSERT INTO customers (name, orders) VALUES ($2, 1)
        ON CONFLICT (name) DO UPDATE SET orders = customers.orders + 1 RETURNING orders
    ), placed AS (
        INSERT INTO orders (id, customer, n) SELECT $1, $2, orders FROM turn RETURNING n
    )
    INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, event_key, payload, headers)
    SELECT $1, 'OrderPlaced', $3, $2, $2, $4, $5 FROM placed";

impl Pair<'_> {
    /// Places an order in a transaction of its own.
    pub(in crate::scenario) fn place(&self, order: &Order<'_>) -> Result<()> {
        let Order {
            id,
            customer,
            line,
            payload,
            headers,
        } = order;
        self.database()
            .rows(PLACE, &[id, customer, line, payload, headers])
            .map(drop)
    }
}
