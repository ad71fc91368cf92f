//! Percentiles of what was measured.

use crate::failure::{Failure, Result};

/// The middle and the slow end of some values.
pub(super) struct Percentiles {
    pub(super) count: usize,
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Percentiles {
    pub(super) fn of(mut values: Vec<f64>) -> Result<Self> {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values.get((values.len() as f64 * share) as usize).copied();
        match (at(0.5), at(0.99)) {
            (Some(p50), Some(p99)) => Ok(Self {
                count: values.len(),
                p50,
                p99,
            }),
            _ => Err(Failure::new("nothing was measured")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_taken_from_the_sorted_values() {
        let percentiles = Percentiles::of((1..=100).rev().map(f64::from).collect()).unwrap();
        assert_eq!((percentiles.p50, percentiles.p99), (51.0, 100.0));
        assert!(Percentiles::of(Vec::new()).is_err());
    }
}
