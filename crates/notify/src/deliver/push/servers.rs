//! The servers that urls lead to, with their connections, and what is to be left alone for a while.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider_admin::Webhook;
use postrider_core::RetryPolicy;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Servers whose connections are kept. Above that, those that nobody uses now are forgotten, which costs them a new
/// connection.
const SERVERS: usize = 128;
/// Pauses that are remembered. Above that all are forgotten, which costs a call each.
const RESTS: usize = 10_000;
/// How long a url that gives no answer is left alone: short at first, because most are back at once.
const REST: RetryPolicy = RetryPolicy::until_it_works(Duration::from_secs(1), Duration::from_secs(30));

/// One server.
pub(super) struct Server {
    name: String,
    webhook: Webhook,
    turns: Semaphore,
}

impl Server {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A url of it, whose connections the others share.
    pub(super) fn webhook(&self) -> &Webhook {
        &self.webhook
    }

    pub(super) fn turns(&self) -> &Semaphore {
        &self.turns
    }
}

#[derive(Default)]
pub(super) struct Servers(Mutex<HashMap<String, Arc<Server>>>);

impl Servers {
    /// The server of a url, with so many turns at a time.
    pub(super) fn of(&self, webhook: &Webhook, turns: usize) -> Arc<Server> {
        let (tls, host, port) = webhook.server();
        let name = format!("{tls} {}:{port}", host.to_ascii_lowercase());
        let mut servers = lock(&self.0);
        if let Some(server) = servers.get(&name) {
            return Arc::clone(server);
        }
        if servers.len() >= SERVERS {
            servers.retain(|_, server| Arc::strong_count(server) > 1);
        }
        let server = Arc::new(Server {
            name: name.clone(),
            webhook: webhook.clone(),
            turns: Semaphore::new(turns),
        });
        servers.insert(name, Arc::clone(&server));
        server
    }

    /// Closes all connections that are not in use.
    pub(super) fn forget(&self) {
        lock(&self.0).clear();
    }
}

/// Until when which urls and servers are left alone. They are known by a number, because a url is often a secret.
#[derive(Default)]
pub(super) struct Rests {
    state: RandomState,
    rests: Mutex<HashMap<u64, Rest>>,
}

#[derive(Clone, Copy)]
struct Rest {
    failures: u32,
    until: Instant,
}

impl Rests {
    /// Until when it is left alone.
    pub(super) fn of(&self, what: &str) -> Option<Instant> {
        lock(&self.rests)
            .get(&self.state.hash_one(what))
            .map(|rest| rest.until)
    }

    /// It failed once more. Calls that were under way together fail together, and count once.
    pub(super) fn lengthen(&self, what: &str) {
        let (key, now) = (self.state.hash_one(what), Instant::now());
        let before = lock(&self.rests).get(&key).copied();
        if before.is_some_and(|rest| rest.until > now) {
            return;
        }
        let failures = before.map_or(0, |rest| rest.failures).saturating_add(1);
        let until = now + REST.pause(failures);
        self.set(key, Rest { failures, until });
    }

    /// It asked for it.
    pub(super) fn until(&self, what: &str, wait: Duration) {
        let until = Instant::now() + wait;
        self.set(self.state.hash_one(what), Rest { failures: 0, until });
    }

    /// It answered.
    pub(super) fn end(&self, what: &str) {
        lock(&self.rests).remove(&self.state.hash_one(what));
    }

    fn set(&self, key: u64, rest: Rest) {
        let mut rests = lock(&self.rests);
        if rests.len() >= RESTS {
            rests.clear();
        }
        rests.insert(key, rest);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use postrider_core::Secret;

    use super::*;

    #[test]
    fn urls_of_one_server_share_it_and_the_number_of_servers_is_bounded() {
        let servers = Servers::default();
        let webhook = |url: &str| Webhook::new(Secret::new(url)).unwrap();
        let one = servers.of(&webhook("https://a.example/1"), 2);
        let two = servers.of(&webhook("https://A.example:443/2"), 2);
        assert!(Arc::ptr_eq(&one, &two));
        let other = servers.of(&webhook("http://a.example/1"), 2);
        assert!(!Arc::ptr_eq(&one, &other));
        for n in 0..10 * SERVERS {
            servers.of(&webhook(&format!("https://{n}.example/")), 2);
        }
        assert!(lock(&servers.0).len() <= SERVERS);
        assert!(Arc::ptr_eq(&one, &servers.of(&webhook("https://a.example/3"), 2)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_grows_and_ends_with_an_answer() {
        let rests = Rests::default();
        assert_eq!(rests.of("u"), None);
        let mut longest = Duration::ZERO;
        for _ in 0..8 {
            rests.lengthen("u");
            let until = rests.of("u").unwrap();
            rests.lengthen("u");
            assert_eq!(rests.of("u"), Some(until), "what fails together counts once");
            longest = longest.max(until - Instant::now());
            tokio::time::advance(until - Instant::now()).await;
        }
        assert!(longest >= Duration::from_secs(15) && longest <= Duration::from_secs(30));
        rests.end("u");
        assert_eq!(rests.of("u"), None);
        for n in 0..2 * RESTS {
            rests.until(&n.to_string(), Duration::from_secs(9));
        }
        assert!(lock(&rests.rests).len() <= RESTS);
    }
}
