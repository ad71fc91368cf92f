//! Fan-outs and digests where people are kept elsewhere: who is meant is asked between two transactions. The first
//! looks whose turn it is; the second stores, if that still is so.

use super::{SqliteBoard, digest, fanout};
use crate::{BoardError, People, Step};

/// Stores the next chunk of one fan-out. Where another was faster, there was a step and it stored nothing.
pub(super) async fn step(board: &SqliteBoard, own: &dyn People) -> Result<Option<Step>, BoardError> {
    let Some(claimed) = board.read(|tx, lite| fanout::next(tx, lite, None)).await? else {
        return Ok(None);
    };
    let nothing = claimed.nothing();
    let asked = claimed.ask(own).await;
    let stepped = board.transaction(move |tx, lite| fanout::step(tx, lite, Some(&asked)));
    Ok(Some(stepped.await??.unwrap_or(nothing)))
}

/// Makes the notification of one digest, and answers its workflow; None when none is due. Where another was faster, the
/// next round looks again.
pub(super) async fn digest(board: &SqliteBoard, own: &dyn People) -> Result<Option<String>, BoardError> {
    let Some(due) = board.read(|tx, lite| digest::claim(tx, lite, None)).await? else {
        return Ok(None);
    };
    let asked = due.ask(own).await;
    let told = board.transaction(move |tx, lite| digest::tell(tx, lite, Some(&asked)));
    told.await?
}
