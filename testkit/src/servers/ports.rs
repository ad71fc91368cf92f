//! Ports that nobody uses.

use std::io;
use std::net::TcpListener;

/// Ports of the loopback interface that were free a moment ago, all different.
pub(crate) fn free<const N: usize>() -> io::Result<[u16; N]> {
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        *port = listener.local_addr()?.port();
        // Held until all are chosen, or the same one would come again.
        held.push(listener);
    }
    Ok(ports)
}
