//! Fan-outs and digests where people are kept elsewhere: who is meant is asked between two transactions. The first
//! looks whose turn it is; the second stores, if that still is so.

use super::{SqliteBoard, digest, fanout};
use crate::people::{self, Page, why};
use crate::{BoardError, CHUNK, Occasion, People, Step, To};

/// Stores the next chunk of one fan-out. Where another was faster, there was a step and it stored nothing.
pub(super) async fn step(board: &SqliteBoard, own: &dyn People) -> Result<Option<Step>, BoardError> {
    let Some(claimed) = board.read(|tx, _| fanout::next(tx, None)).await? else {
        return Ok(None);
    };
    // One that cannot be read is said to be so by whoever goes on with it.
    let page = match serde_json::from_str::<Occasion>(&claimed.occasion) {
        Ok(occasion) => people::page(own, (&occasion.to, claimed.cursor.as_deref(), CHUNK)).await,
        Err(_) => Ok(Page::default()),
    };
    let nothing = Step {
        event_id: claimed.event_id.clone(),
        ..Step::default()
    };
    let asked = (claimed, page.map_err(|error| why(&error)));
    let stepped = board.transaction(move |tx, lite| fanout::step(tx, lite, Some(&asked)));
    Ok(Some(stepped.await??.unwrap_or(nothing)))
}

/// Makes the notification of one digest, and answers its workflow; None when none is due. Where another was faster, the
/// next round looks again.
pub(super) async fn digest(board: &SqliteBoard, own: &dyn People) -> Result<Option<String>, BoardError> {
    let Some(claimed) = board.read(|tx, _| digest::claim(tx, None)).await? else {
        return Ok(None);
    };
    let to = To::User(claimed.user.clone());
    let page = people::page(own, (&to, None, 1)).await;
    let asked = (claimed, page.map_err(|error| why(&error)));
    let told = board.transaction(move |tx, lite| digest::tell(tx, lite, Some(&asked)));
    told.await?
}
