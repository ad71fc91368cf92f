//! Fan-outs and digests where people are kept elsewhere: who is meant is asked between two transactions. The first
//! looks whose turn it is; the second stores, if that still is so.

use super::{PgBoard, digest, fanout};
use crate::{BoardError, People, Step};

/// Stores the next chunk of one fan-out. Where another was faster, there was a step and it stored nothing.
pub(super) async fn step(board: &PgBoard, own: &dyn People) -> Result<Option<Step>, BoardError> {
    let turn = board.transaction(&board.pg, |tx, pg| Box::pin(fanout::next(tx, pg, None)));
    let Some(claimed) = turn.await? else {
        return Ok(None);
    };
    let nothing = claimed.nothing();
    let given = (&board.pg, claimed.ask(own).await);
    let stepped = board.transaction(&given, |tx, (pg, asked)| {
        Box::pin(fanout::step(tx, pg, Some(asked)))
    });
    Ok(Some(stepped.await??.unwrap_or(nothing)))
}

/// Makes the notification of one digest, and answers its workflow; None when none is due. Where another was faster, the
/// next round looks again.
pub(super) async fn digest(board: &PgBoard, own: &dyn People) -> Result<Option<String>, BoardError> {
    let turn = board.transaction(&board.pg, |tx, pg| Box::pin(digest::claim(tx, pg, None)));
    let Some(due) = turn.await? else {
        return Ok(None);
    };
    let given = (&board.pg, due.ask(own).await);
    let told = board.transaction(&given, |tx, (pg, asked)| {
        Box::pin(digest::tell(tx, pg, Some(asked)))
    });
    told.await?
}
