//! Producing: transactions that commit in another order than they insert.

use std::time::Duration;

use postrider_core::{EventId, OrderKey, Seq};

use super::{Model, NewRow, Row, rows};

/// An open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(pub u64);

/// Why a row was not inserted. The transaction stays open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// The id is in `outbox` already, perhaps in a transaction that is still open. A real database would make the
    /// second writer wait for that one; a model that never waits refuses at once.
    DuplicateId(EventId),
    /// The transaction is over, or never was.
    NoTransaction(TxId),
}

impl std::fmt::Display for InsertError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            InsertError::DuplicateId(id) => write!(f, "an event with the id {id} is queued already"),
            InsertError::NoTransaction(TxId(tx)) => write!(f, "transaction {tx} is not open"),
        }
    }
}

impl std::error::Error for InsertError {}

impl Model {
    /// Begins a transaction.
    pub fn begin(&mut self) -> TxId {
        let tx = TxId(self.next_tx);
        self.next_tx += 1;
        self.open.insert(tx, Vec::new());
        tx
    }

    /// Inserts a row. It has its place at once, and nobody sees it before the commit.
    pub fn insert(&mut self, now: Duration, tx: TxId, row: impl Into<NewRow>) -> Result<Seq, InsertError> {
        let NewRow {
            mut event,
            bad,
            replay,
        } = row.into();
        let held = self.open.get_mut(&tx).ok_or(InsertError::NoTransaction(tx))?;
        if self.ids.contains_key(&event.id) {
            return Err(InsertError::DuplicateId(event.id));
        }
        // An identity column is not transactional: a place is used up even if the transaction rolls back.
        self.last_seq = Seq(self.last_seq.0 + 1);
        let seq = self.last_seq;
        held.push(seq);
        event.created_at.get_or_insert(rows::timestamp(now));
        let own = event.order_key();
        // The shard follows the event's own key also when it is replayed, so that a replay is spread like the flow.
        let shard = rows::shard_of(&own, self.options.shards);
        let key = match &replay {
            Some(replay) => OrderKey::replayed(replay, own.as_str()),
            None => own,
        };
        self.ids.insert(event.id.clone(), seq);
        let lane = event.lane();
        self.rows.insert(
            seq,
            Row {
                seq,
                shard,
                lane,
                key,
                event: event.into(),
                bad,
                replay,
                inserted: now,
                tx: Some(tx),
            },
        );
        Ok(seq)
    }

    /// Makes the rows of a transaction visible, all at once. Answers whether it was open.
    pub fn commit(&mut self, tx: TxId) -> bool {
        let Some(seqs) = self.open.remove(&tx) else {
            return false;
        };
        for seq in seqs {
            let row = self
                .rows
                .get_mut(&seq)
                .expect("a row of an open transaction cannot leave");
            row.tx = None;
            self.counters.committed += 1;
            self.visible.entry((row.shard, row.lane)).or_default().insert(seq);
        }
        true
    }

    /// Forgets the rows of a transaction. Answers whether it was open.
    pub fn rollback(&mut self, tx: TxId) -> bool {
        let Some(seqs) = self.open.remove(&tx) else {
            return false;
        };
        for seq in seqs {
            let row = self
                .rows
                .remove(&seq)
                .expect("a row of an open transaction cannot leave");
            self.ids.remove(row.event_id());
            self.counters.rolled_back += 1;
        }
        true
    }

    /// Takes a visible row out of `outbox`.
    pub(super) fn take_queued(&mut self, seq: Seq) -> Option<Row> {
        if self.rows.get(&seq)?.tx.is_some() {
            return None;
        }
        let row = self.rows.remove(&seq)?;
        self.ids.remove(row.event_id());
        if let Some(index) = self.visible.get_mut(&(row.shard, row.lane)) {
            index.remove(&seq);
        }
        Some(row)
    }
}
