//! What to say to somebody who mistyped a name.

use postrider_core::nearest;

/// "did you mean …?" or the whole list, whichever helps more.
pub fn suggestion(name: &str, known: &[&str]) -> Option<String> {
    match (nearest(name, known.iter().copied()), known) {
        (Some(near), _) => Some(format!("did you mean `{near}`?")),
        (None, []) => None,
        (None, all) => Some(format!("known here: {}", all.join(", "))),
    }
}
