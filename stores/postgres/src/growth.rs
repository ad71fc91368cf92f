//! When the plans of a session are out of date. A plan is made once, and for a table of a few rows every index is as
//! good as any other: when the table has grown, the same plan may walk all of it for every row that it looks for.

use std::sync::atomic::{AtomicI64, Ordering};

/// Tables below this size are read whole in no time, whatever the plan.
const SMALL: i64 = 16;
/// Plans are not trusted at any size.
const DOUBTED: i64 = -1;

/// The size, in pages, that the plans of a session were made for.
#[derive(Debug, Default)]
pub(crate) struct Growth(AtomicI64);

impl Growth {
    /// Whether plans must be made anew for a table of this size. One that has shrunk is noted, because whatever is
    /// planned from now on is planned for the small one.
    pub(crate) fn outgrown(&self, pages: i64) -> bool {
        let planned = self.0.load(Ordering::Relaxed);
        if planned != DOUBTED && pages < planned / 2 {
            self.planned(pages);
        }
        planned == DOUBTED || pages > SMALL.max(planned * 2)
    }

    /// Plans are made for a table of this size.
    pub(crate) fn planned(&self, pages: i64) {
        self.0.store(pages.max(0), Ordering::Relaxed);
    }

    /// A statement took too long: its plan may be why.
    pub(crate) fn doubt(&self) {
        self.0.store(DOUBTED, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_made_anew_as_a_table_grows() {
        let growth = Growth::default();
        assert!(!growth.outgrown(0) && !growth.outgrown(SMALL), "small is small");
        assert!(growth.outgrown(SMALL + 1));
        assert!(growth.outgrown(SMALL + 1), "until it is done");
        growth.planned(100);
        assert!(!growth.outgrown(200) && growth.outgrown(201));
    }

    #[test]
    fn a_table_that_was_emptied_grows_again() {
        let growth = Growth::default();
        growth.planned(1_000);
        assert!(!growth.outgrown(0));
        assert!(growth.outgrown(SMALL + 1));
    }

    #[test]
    fn what_was_too_slow_is_planned_anew() {
        let growth = Growth::default();
        growth.doubt();
        assert!(growth.outgrown(0));
        growth.planned(0);
        assert!(!growth.outgrown(0));
    }
}
