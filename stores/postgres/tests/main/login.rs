//! Logins: which one counts, and one that is changed while a relay is at work.

use std::path::{Path, PathBuf};

use postrider_core::{Event, Schema, Secret};
use postrider_postgres::{PgOptions, PgStore};
use postrider_testkit::servers::Postgres;

use crate::support::{Running, event, few_shards};

const ROLE: &str = "rotated";

/// A server that asks everybody but its own superuser for a password.
struct Guarded {
    server: Postgres,
    folder: tempfile::TempDir,
}

impl Guarded {
    async fn start() -> Self {
        let server = tokio::task::spawn_blocking(|| Postgres::start().expect("a server"))
            .await
            .expect("started");
        let file = server.sql("postgres", "SHOW hba_file");
        let rules = "('local all all trust'), ('host all postgres 127.0.0.1/32 trust'), \
                     ('host all all 127.0.0.1/32 scram-sha-256')";
        server.sql("postgres", &format!("COPY (VALUES {rules}) TO '{file}'"));
        server.sql("postgres", "SELECT pg_reload_conf()");
        server.sql("postgres", &format!("CREATE ROLE {ROLE} SUPERUSER LOGIN"));
        let store = PgStore::lazy(&server.url("postgres"), few_shards()).expect("a url");
        store.up().await.expect("the tables are made");
        let folder = tempfile::tempdir().expect("a folder");
        Self { server, folder }
    }

    fn set(&self, password: &str) {
        self.server
            .sql("postgres", &format!("ALTER ROLE {ROLE} PASSWORD '{password}'"));
    }

    fn url(&self, password: &str) -> String {
        self.server
            .url("postgres")
            .replace("postgres@", &format!("{ROLE}:{password}@"))
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        std::fs::write(&file, text).expect("written");
        file
    }

    fn cut(&self) {
        let sql =
            format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '{ROLE}'");
        let cut: i64 = self.server.sql("postgres", &sql).parse().expect("a number");
        assert!(cut > 0, "the relay was connected");
    }

    async fn enqueue(&self, event: Event) {
        let store = PgStore::lazy(&self.server.url("postgres"), few_shards()).expect("a url");
        store.send(&[event]).await.expect("committed");
    }

    /// A relay goes on when its password is changed, the file rewritten, and its connections cut.
    async fn outlives_a_rotation(&self, url: &str, options: PgOptions, rewrite: impl Fn(&str) -> PathBuf) {
        let relay = Running::start(PgStore::lazy(url, options).expect("a url"));
        self.enqueue(event("before", "k")).await;
        relay.arrived(1).await;
        self.set("second");
        // Cut before the file is rewritten too: a relay that meets the old password tries again.
        self.cut();
        self.enqueue(event("after", "k")).await;
        rewrite("second");
        relay.arrived(2).await;
        assert_eq!(relay.ids(), ["before", "after"]);
        relay.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_rewritten_in_its_file_is_used() {
    let guarded = Guarded::start().await;
    guarded.set("first");
    let rewrite = |password: &str| guarded.write("password", &format!("{password}\n"));
    let options = few_shards().password_file(rewrite("first"));
    guarded
        .outlives_a_rotation(&guarded.url("wrong"), options, rewrite)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_is_rewritten_in_its_file_is_used() {
    let guarded = Guarded::start().await;
    guarded.set("first");
    let rewrite = |password: &str| guarded.write("url", &format!("{}\n", guarded.url(password)));
    let options = few_shards().url_file(rewrite("first"));
    guarded
        .outlives_a_rotation(&guarded.url("wrong"), options, rewrite)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_login_of_the_options_wins_over_that_of_the_url() {
    let guarded = Guarded::start().await;
    guarded.set("first");
    let url = guarded.url("wrong");
    let refused = PgStore::connect(&url, few_shards())
        .await
        .expect_err("a wrong password");
    assert_eq!(
        refused.kind(),
        postrider_core::StoreErrorKind::Denied,
        "{refused:?}"
    );
    let nobody = url.replace(ROLE, "nobody");
    let right = few_shards().login(Some(ROLE.to_owned()), Some(Secret::new("first")));
    PgStore::connect(&nobody, right)
        .await
        .expect("the login of the options");
    let missing = few_shards().password_file(Path::new("no/such/file"));
    let error = PgStore::connect(&url, missing).await.expect_err("no such file");
    assert!(error.to_string().contains("no/such/file"), "{error}");
}
