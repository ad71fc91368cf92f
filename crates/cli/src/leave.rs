//! Whether long work may go on.

use std::future::ready;

use postrider_core::BoxFuture;
use tokio_util::sync::CancellationToken;

/// Asked between the steps of long work: whoever does it may have lost the right to, or be stopping.
pub trait Leave: Send {
    fn to_go_on(&mut self) -> BoxFuture<'_, bool>;
}

/// Goes on until somebody stops it.
impl Leave for CancellationToken {
    fn to_go_on(&mut self) -> BoxFuture<'_, bool> {
        Box::pin(ready(!self.is_cancelled()))
    }
}
