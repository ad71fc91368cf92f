//! A database with an outbox and a business table, two queues, and the relay between them.

use std::fs;
use std::path::Path;
use std::process::Command;

use postrider_testkit::process::{TempDir, scratch};
use postrider_testkit::servers::rabbitmq::{self, Vhost};
use postrider_testkit::servers::{Postgres, TestDatabase};

use crate::arrived::{self, Arrived};
use crate::cases::{Case, Fate, LARGE, SAME};
use crate::commands::{TOTAL, business_id};

pub(crate) struct Stage {
    folder: TempDir,
    database: TestDatabase,
    /// The address for producers, who may insert and nothing else.
    producer: String,
    vhost: Vhost,
}

impl Stage {
    pub(crate) async fn new() -> Stage {
        let database = Postgres::shared().database();
        let role = format!("{}_producer", database.name);
        let place = database.url.rsplit('@').next().expect("it has a host");
        let stage = Stage {
            folder: scratch("languages").expect("a folder can be made"),
            producer: format!("postgres://{role}:only-for-tests@{place}"),
            database,
            vhost: rabbitmq::shared().await,
        };
        let (raw, flat) = (stage.vhost.named("raw"), stage.vhost.named("flat"));
        let configuration = format!(
            r#"
[outbox.main]
url = "{}"

[broker.rabbit]
url = "{}"

[broker.rabbit.rabbitmq]
declare = true
max_message_bytes = "2MiB"
queue = [{{ name = "{raw}" }}, {{ name = "{flat}" }}]

[[route]]
when = {{ event_type = "{LARGE}" }}
to = [{{ broker = "rabbit", routing_key = "{raw}", envelope = "raw" }}]

[[route]]
to = [
    {{ broker = "rabbit", routing_key = "{raw}", envelope = "raw" }},
    {{ broker = "rabbit", routing_key = "{flat}", envelope = "flat" }},
]
"#,
            stage.database.url,
            stage.vhost.url(),
        );
        fs::write(stage.folder.path().join("postrider.toml"), configuration).expect("a file can be written");
        assert_eq!(stage.postrider(&["migrate", "up"]), 0);
        stage.sql("CREATE TABLE orders (id text PRIMARY KEY, total integer NOT NULL)");
        // The second right is for `outbox_send`, which answers with the id.
        stage.sql(&format!(
            "CREATE ROLE {role} LOGIN PASSWORD 'only-for-tests'; GRANT INSERT ON orders, outbox TO {role};
             GRANT SELECT (event_id) ON outbox TO {role}"
        ));
        stage
    }

    /// Where the programs insert.
    pub(crate) fn url(&self) -> &str {
        &self.producer
    }

    /// For files of this run.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Publishes what was inserted, and looks at everything that came of it.
    pub(crate) async fn expect(&self, cases: &[Case]) {
        self.expect_business_rows(cases);
        // What is parked is left: exit code 1.
        assert_eq!(self.postrider(&["run", "--until-empty"]), 1);
        self.expect_parked(cases);
        let raw = arrived::take_all(&self.vhost.url(), &self.vhost.named("raw")).await;
        let flat = arrived::take_all(&self.vhost.url(), &self.vhost.named("flat")).await;
        let arrive: Vec<&Case> = cases.iter().filter(|case| case.fate == Fate::Arrives).collect();
        let both = arrive.iter().filter(|case| case.event_type != LARGE);
        // And the order that the snippet placed.
        assert_eq!(
            raw.len(),
            arrive.len() + 1,
            "rolled back and parked events stay away"
        );
        assert_eq!(flat.len(), both.clone().count() + 1);
        for case in &arrive {
            arrived::one(&raw, &case.name).is_raw(case);
        }
        for case in both {
            arrived::one(&flat, &case.name).is_flat(case);
        }
        let placed = arrived::one(&flat, "order");
        assert_eq!(placed.flat().payload_value()["total"], TOTAL);
        for queue in [&raw, &flat] {
            expect_order(queue, &arrive);
        }
    }

    /// One row for each event that was not rolled back, and one for the order that the snippet placed.
    fn expect_business_rows(&self, cases: &[Case]) {
        let committed = cases.iter().filter(|case| case.fate != Fate::RolledBack);
        let mut wanted: Vec<String> = committed.map(business_id).collect();
        wanted.push("order".to_owned());
        wanted.sort();
        let found = self.sql("SELECT id FROM orders ORDER BY id COLLATE \"C\"");
        assert_eq!(found.lines().collect::<Vec<_>>(), wanted);
    }

    fn expect_parked(&self, cases: &[Case]) {
        let parked = cases.iter().filter(|case| case.fate == Fate::Parked);
        let mut wanted: Vec<String> = parked
            .map(|case| format!("{}|DEAD_LETTER|bad_row", case.name))
            .collect();
        wanted.sort();
        let found = self.sql(
            "SELECT aggregate_id, status, error_kind FROM outbox_events WHERE NOT published
             ORDER BY aggregate_id COLLATE \"C\"",
        );
        assert_eq!(found.lines().collect::<Vec<_>>(), wanted);
    }

    fn sql(&self, sql: &str) -> String {
        Postgres::shared().sql(&self.database.name, sql)
    }

    /// Runs the binary; the answer is its exit code.
    fn postrider(&self, arguments: &[&str]) -> i32 {
        // Not for ever: a relay that cannot reach its broker waits.
        let output = Command::new("timeout")
            .args(["60", env!("CARGO_BIN_EXE_postrider")])
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .expect("the binary can be started");
        let code = output.status.code();
        let said = String::from_utf8_lossy(&output.stderr);
        code.filter(|code| *code < 2)
            .unwrap_or_else(|| panic!("postrider {arguments:?} ended with {code:?}: {said}"))
    }
}

/// Those of one key come in the order of their transactions.
fn expect_order(queue: &[Arrived], cases: &[&Case]) {
    let wanted = cases.iter().filter(|case| case.key == Some(SAME));
    let wanted: Vec<&str> = wanted.map(|case| case.name.as_str()).collect();
    let came = queue
        .iter()
        .filter(|message| message.header("event-key") == Some(SAME));
    let came: Vec<&str> = came
        .filter_map(|message| message.header("aggregate-id"))
        .collect();
    assert_eq!(came, wanted);
}
