//! SIGINT and SIGTERM: the first stops in good order, the second at once.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// `timeout` and some supervisors signal the process and then its group: within this time it is one and the same wish.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// A token that the first signal cancels. The second ends the process: nothing is lost by that, the lease just has to
/// run out.
pub fn stop_token() -> CancellationToken {
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        signal().await;
        stop.cancel();
        tokio::time::sleep(SAME_SIGNAL).await;
        signal().await;
        std::process::exit(130);
    });
    token
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};

    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn signal() {
    // An error means that signals cannot be heard here; then only the process's end stops it.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
