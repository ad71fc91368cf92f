//! A row that is routed anew is replaced by others of its place, so no other row there may change in the same settle:
//! two of one event may be routed to the same destination, and two events may have one place, where a sequence was set
//! back.

use std::collections::BTreeMap;

use postrider_core::{Seq, Then};

use super::item::{Item, Verdict};

/// The places of the parked rows of a settle, and which of them are routed anew.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<Seq, bool>);

impl Places {
    /// Takes the place of an item, unless that is to wait for the next settle.
    pub(super) fn take(&mut self, item: &Item) -> bool {
        if item.is_queued() {
            return true;
        }
        let is_anew = matches!(item.verdict, Some(Verdict::Then(Then::Split(_))));
        let known = self.0.get(&item.seq);
        let takes = known.is_none_or(|other_is_anew| !is_anew && !other_is_anew);
        if takes {
            self.0.insert(item.seq, is_anew);
        }
        takes
    }

    /// Whether a row of this place is routed anew.
    pub(super) fn is_anew(&self, item: &Item) -> bool {
        self.0.get(&item.seq).is_some_and(|is_anew| *is_anew)
    }
}
