//! A private RabbitMQ: one per test process, a virtual host per test.
//!
//! The server starts with the first test that needs it and ends with the process. Tests that stop it, freeze it or fill
//! its memory ask for it [`alone`]; all others share it.

mod management;
mod node;

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::certificates::Authority;
use node::Node;

/// The login of all virtual hosts.
pub const USER: &str = "postrider";
/// Its password.
pub const PASSWORD: &str = "only-for-tests";
/// The largest message that the private server takes: small, so that the limit can be met.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// A RabbitMQ that is there already, in place of a private one. What needs to stop the server is then left out.
const URL: &str = "POSTRIDER_TEST_RABBITMQ_URL";

/// A virtual host that only one test uses.
#[derive(Debug)]
pub struct Vhost {
    place: Place,
    turn: Turn,
}

#[derive(Debug)]
enum Place {
    /// Of the private server.
    Private { node: &'static Node, name: String },
    /// Of a server given by its url; names in it are made different for each test.
    Given { url: String, suffix: String },
}

/// Held for as long as the virtual host is used.
#[derive(Debug, Default)]
struct Turn {
    _shared: Option<OwnedRwLockReadGuard<()>>,
    alone: Option<OwnedRwLockWriteGuard<()>>,
}

/// A virtual host beside those of other tests. Nobody disturbs the server meanwhile.
pub async fn shared() -> Vhost {
    let turn = Arc::clone(turns()).read_owned().await;
    Vhost::fresh(Turn {
        _shared: Some(turn),
        ..Turn::default()
    })
}

/// A virtual host of a server that nobody else uses meanwhile, so that it may be disturbed.
pub async fn alone() -> Vhost {
    let turn = Arc::clone(turns()).write_owned().await;
    Vhost::fresh(Turn {
        alone: Some(turn),
        ..Turn::default()
    })
}

/// Why the server cannot be stopped, if it cannot.
pub fn undisturbable() -> Option<&'static str> {
    std::env::var_os(URL).map(|_| "the RabbitMQ of POSTRIDER_TEST_RABBITMQ_URL is not ours to stop")
}

fn turns() -> &'static Arc<RwLock<()>> {
    static TURNS: OnceLock<Arc<RwLock<()>>> = OnceLock::new();
    TURNS.get_or_init(Arc::default)
}

/// A missing server is a failure, never a test that quietly does not run.
fn node() -> &'static Node {
    static NODE: OnceLock<Node> = OnceLock::new();
    NODE.get_or_init(|| Node::start().unwrap_or_else(|error| panic!("RabbitMQ cannot be started: {error}")))
}

impl Vhost {
    fn fresh(turn: Turn) -> Vhost {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = match std::env::var(URL) {
            Ok(url) => Place::Given {
                url,
                suffix: format!("-{}-{number}", std::process::id()),
            },
            Err(_) => {
                let node = node();
                // A test that failed may have left it stopped.
                node.ensure_running().expect("RabbitMQ can be started again");
                let name = format!("test-{number}");
                node.add_vhost(&name).expect("a virtual host can be made");
                Place::Private { node, name }
            }
        };
        Vhost { place, turn }
    }

    /// Its url, with the login.
    pub fn url(&self) -> String {
        match &self.place {
            Place::Given { url, .. } => url.clone(),
            Place::Private { node, name } => {
                format!("amqp://{USER}:{PASSWORD}@127.0.0.1:{}/{name}", node.ports.amqp)
            }
        }
    }

    /// The url for another port, such as that of a proxy, or another login.
    pub fn url_by(&self, login: &str, port: u16) -> String {
        let vhost = match &self.place {
            Place::Given { .. } => "%2f",
            Place::Private { name, .. } => name,
        };
        format!("amqp://{login}@127.0.0.1:{port}/{vhost}")
    }

    /// The url of the encrypted listener, by a name of the host.
    pub fn url_tls(&self, host: &str) -> String {
        let node = self.node();
        match &self.place {
            Place::Given { url, .. } => url.clone(),
            Place::Private { name, .. } => {
                format!("amqps://{USER}:{PASSWORD}@{host}:{}/{name}", node.ports.amqps)
            }
        }
    }

    /// A name for a queue or an exchange that no other test has.
    pub fn named(&self, name: &str) -> String {
        match &self.place {
            Place::Given { suffix, .. } => format!("{name}{suffix}"),
            Place::Private { .. } => name.to_owned(),
        }
    }

    /// The port of the unencrypted listener.
    pub fn port(&self) -> u16 {
        self.node().ports.amqp
    }

    /// Who signed the certificate of the encrypted listener.
    pub fn authority(&self) -> &Authority {
        &self.node().authority
    }

    /// Kills the server as a power cut would.
    pub fn kill(&self) -> io::Result<()> {
        self.alone().kill()
    }

    /// Starts the server again, on what it had stored, and waits until it takes connections.
    pub fn start(&self) -> io::Result<()> {
        self.alone().launch()
    }

    /// Freezes the server: it keeps its connections and says nothing.
    pub fn freeze(&self) -> io::Result<()> {
        self.alone().freeze()
    }

    /// Lets it go on.
    pub fn thaw(&self) -> io::Result<()> {
        self.alone().thaw()
    }

    /// Raises or ends the memory alarm: with it the server takes no messages.
    pub fn memory_alarm(&self, on: bool) -> io::Result<()> {
        let share = if on { "0.00001" } else { "0.6" };
        self.alone().control(&["set_vm_memory_high_watermark", share])
    }

    /// Takes from the user the right to publish, or gives it back.
    pub fn may_publish(&self, may: bool) -> io::Result<()> {
        match &self.place {
            Place::Given { .. } => Err(io::Error::other("the server is not ours")),
            Place::Private { node, name } => node.permit(name, if may { ".*" } else { "" }),
        }
    }

    fn node(&self) -> &'static Node {
        match &self.place {
            Place::Private { node, .. } => node,
            Place::Given { .. } => panic!("this test needs a private RabbitMQ; unset {URL}"),
        }
    }

    fn alone(&self) -> &'static Node {
        assert!(
            self.turn.alone.is_some(),
            "a test that disturbs the server must have it alone"
        );
        self.node()
    }
}
