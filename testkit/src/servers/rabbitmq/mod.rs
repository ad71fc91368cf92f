//! A private RabbitMQ: one per test process, a virtual host per test.
//!
//! The server starts with the first test that needs it and ends with the process. Tests that stop it, freeze it or fill
//! its memory ask for it [`alone`]; tests that must know it (its ports, its users) ask for it as [`private`]; all
//! others are content with whichever is [`shared`]. Other processes start a [`RabbitMq`] of their own.

mod management;
mod node;

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::certificates::Authority;
pub use node::RabbitMq;

/// The login of all virtual hosts.
pub const USER: &str = "postrider";
/// Its password.
pub const PASSWORD: &str = "only-for-tests";
/// The largest message that the private server takes: small, so that the limit can be met.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// A RabbitMQ that is there already, for the tests that need to know nothing about it. The others start a private one
/// beside it: what was not tested must not look as if it had been.
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
    Private { node: &'static RabbitMq, name: String },
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
    Vhost::fresh(std::env::var(URL).ok(), beside_others().await)
}

/// The same, on the private server also where another one is given.
pub async fn private() -> Vhost {
    Vhost::fresh(None, beside_others().await)
}

/// A virtual host of a server that nobody else uses meanwhile, so that it may be disturbed.
pub async fn alone() -> Vhost {
    let turn = Turn {
        alone: Some(Arc::clone(turns()).write_owned().await),
        ..Turn::default()
    };
    Vhost::fresh(None, turn)
}

async fn beside_others() -> Turn {
    Turn {
        _shared: Some(Arc::clone(turns()).read_owned().await),
        ..Turn::default()
    }
}

fn turns() -> &'static Arc<RwLock<()>> {
    static TURNS: OnceLock<Arc<RwLock<()>>> = OnceLock::new();
    TURNS.get_or_init(Arc::default)
}

/// A missing server is a failure, never a test that quietly does not run.
fn node() -> &'static RabbitMq {
    static NODE: OnceLock<RabbitMq> = OnceLock::new();
    NODE.get_or_init(|| {
        RabbitMq::start().unwrap_or_else(|error| panic!("RabbitMQ cannot be started: {error}"))
    })
}

impl Vhost {
    fn fresh(given: Option<String>, turn: Turn) -> Vhost {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = match given {
            Some(url) => Place::Given {
                url,
                suffix: format!("-{}-{number}", std::process::id()),
            },
            None => {
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
            Place::Private { node, name } => node.url(name),
        }
    }

    /// The url for another login, or another port, such as that of a proxy.
    pub fn url_by(&self, login: &str, port: u16) -> String {
        let (node, name) = self.private();
        node.url_by(login, port, name)
    }

    /// The url of the encrypted listener, by a name of the host.
    pub fn url_tls(&self, host: &str) -> String {
        let (node, name) = self.private();
        node.url_tls(host, name)
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
        self.private().0.port()
    }

    /// Who signed the certificate of the encrypted listener.
    pub fn authority(&self) -> &Authority {
        self.private().0.authority()
    }

    /// Kills the server as a power cut would.
    pub fn kill(&self) -> io::Result<()> {
        self.alone().kill9()
    }

    /// Starts the server again, on what it had stored, and waits until it takes connections.
    pub fn start(&self) -> io::Result<()> {
        self.alone().start_again()
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

    /// Sets the largest message that the server takes on channels that are opened from now on, as a restart with
    /// another `max_message_size` would. It holds for all who use the server.
    pub fn max_message_size(&self, bytes: usize) -> io::Result<()> {
        let set = format!("application:set_env(rabbit, max_message_size, {bytes}).");
        self.alone().control(&["eval", &set])
    }

    /// Takes from the user the right to publish, or gives it back.
    pub fn may_publish(&self, may: bool) -> io::Result<()> {
        let (node, name) = self.private();
        node.permit(name, if may { ".*" } else { "" })
    }

    /// Makes a user who may do everything here, or gives the one that there is another password.
    pub fn user(&self, name: &str, password: &str) -> io::Result<()> {
        let (node, vhost) = self.private();
        node.user(vhost, name, password)
    }

    /// Removes a user; the server closes its connections.
    pub fn remove_user(&self, name: &str) -> io::Result<()> {
        self.private().0.remove_user(name)
    }

    fn private(&self) -> (&'static RabbitMq, &str) {
        match &self.place {
            Place::Private { node, name } => (node, name),
            Place::Given { .. } => panic!("this test must ask for a private RabbitMQ"),
        }
    }

    fn alone(&self) -> &'static RabbitMq {
        assert!(
            self.turn.alone.is_some(),
            "a test that disturbs the server must have it alone"
        );
        self.private().0
    }
}
