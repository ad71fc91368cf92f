//! How far a consumer has come in what has places.

use std::collections::BTreeMap;

/// What a consumer is done with of a file, a partition, or anything else whose messages have places that grow:
/// everything before a front, and spans behind it.
///
/// Neighbouring spans are one. So there are at most as many as there are messages before the last one that is done and
/// are not done themselves: what a consumer holds bounds them, and not how long it holds it.
///
/// ```
/// use postrider_core::Progress;
///
/// let mut progress = Progress::default();
/// progress.finish(10, 20);
/// progress.finish(20, 30);
/// assert_eq!((progress.front(), progress.spans().count()), (0, 1));
/// progress.finish(0, 10);
/// assert_eq!((progress.front(), progress.spans().count()), (30, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    front: u64,
    /// Where each span behind the front begins and ends. None touches another, or the front.
    spans: BTreeMap<u64, u64>,
}

impl Progress {
    /// What was written down of another.
    pub fn new(front: u64, spans: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut progress = Self {
            front,
            spans: BTreeMap::new(),
        };
        for (start, end) in spans {
            progress.finish(start, end);
        }
        progress
    }

    /// Everything before this is done, and what begins here is not.
    pub fn front(&self) -> u64 {
        self.front
    }

    /// What is done behind the front: where each span begins and ends.
    pub fn spans(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.spans.iter().map(|(start, end)| (*start, *end))
    }

    /// Where that begins which is not done, from a place on.
    pub fn next(&self, place: u64) -> u64 {
        if place < self.front {
            return self.front;
        }
        match self.spans.range(..=place).next_back() {
            Some((_, end)) => place.max(*end),
            None => place,
        }
    }

    /// Whether what begins here is done.
    pub fn is_done(&self, place: u64) -> bool {
        self.next(place) > place
    }

    /// Everything from a place up to another is done now. True when the front has moved.
    pub fn finish(&mut self, start: u64, end: u64) -> bool {
        let (mut start, mut end) = (start.max(self.front), end);
        if start >= end {
            return false;
        }
        // All that touch it, from the last on: the first one that ends before it is followed by none.
        while let Some((other, until)) = self.spans.range(..=end).next_back().map(|(a, b)| (*a, *b)) {
            if until < start {
                break;
            }
            self.spans.remove(&other);
            (start, end) = (start.min(other), end.max(until));
        }
        if start > self.front {
            self.spans.insert(start, end);
            return false;
        }
        self.front = end;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_that_is_held_costs_one_span() {
        let mut progress = Progress::default();
        for n in 1..10_000 {
            assert!(!progress.finish(n, n + 1));
        }
        assert_eq!(progress.spans().collect::<Vec<_>>(), [(1, 10_000)]);
        assert_eq!((progress.next(0), progress.next(1)), (0, 10_000));
        assert!(progress.finish(0, 1));
        assert_eq!(progress, Progress::new(10_000, []));
    }

    proptest! {
        #[test]
        fn it_knows_what_a_set_of_places_knows(
            finished in prop::collection::vec((0_u64..60, 0_u64..8), 0..40),
        ) {
            let (mut progress, mut places) = (Progress::default(), BTreeSet::new());
            for (start, length) in finished {
                let before = progress.front();
                let moved = progress.finish(start, start + length);
                places.extend(start..start + length);
                prop_assert_eq!(moved, progress.front() > before);
                for place in 0..70 {
                    prop_assert_eq!(progress.is_done(place), places.contains(&place));
                    let next = (place..).find(|at| !places.contains(at));
                    prop_assert_eq!(Some(progress.next(place)), next);
                }
                let mut last = progress.front();
                for (start, end) in progress.spans() {
                    prop_assert!(last < start && start < end, "spans that touch are one");
                    last = end;
                }
                prop_assert_eq!(&Progress::new(progress.front(), progress.spans()), &progress);
            }
        }
    }
}
