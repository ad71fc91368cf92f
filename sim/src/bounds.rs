//! Everything that a relay keeps in memory is bounded, whatever waits in the tables.

use postrider_core::Lane;
use postrider_relay::engine::Load;

use crate::plan::Plan;

/// Heads of parked lines in memory, and those that may stand behind each.
const HEADS: usize = 256;
const FOLLOWERS: usize = 64;
/// Addresses and suspects that a destination remembers; each is kept in two places.
const ADDRESSES: usize = 2 * 257;
const SUSPECTS: usize = 2 * 1_025;

/// What is larger than it may be, by name, with its size and its bound.
pub(crate) fn exceeded(
    plan: &Plan,
    load: &Load,
    destinations: usize,
) -> Option<(&'static str, usize, usize)> {
    let window = plan.settings.window;
    // Half the window, the window and a quarter of it, each at least a row; and one more where a quota is rounded up.
    let queued = window / 2 + window + window / 4 + Lane::ALL.len() * (usize::from(plan.shards) + 1);
    let shards = usize::from(plan.shards);
    let rows = load.rows();
    let bounds = [
        ("queued rows", load.queued, queued),
        // What waits for a destination that is slow leaves room for the others'.
        (
            "parked rows",
            load.parked,
            HEADS.min(window) * (1 + FOLLOWERS) * destinations,
        ),
        ("decided rows", load.decided, rows),
        ("starts", load.starts, load.parked),
        ("lines", load.lines, rows * destinations + load.flying + load.void),
        ("keys", load.keys, rows + load.lines + load.void),
        ("ready lines", load.ready, rows * destinations),
        ("void keys and lines", load.void, 2 * queued * destinations),
        ("calls", load.calls, plan.calls * destinations),
        ("shards", load.shards, 2 * shards),
        ("ranges", load.ranges, Lane::ALL.len() * shards),
        ("addresses", load.addresses, ADDRESSES),
        ("suspects", load.suspects, SUSPECTS),
    ];
    bounds.into_iter().find(|(_, size, most)| size > most)
}
