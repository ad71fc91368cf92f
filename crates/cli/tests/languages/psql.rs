//! psql has no drivers and no parameters: its users write literals.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use crate::cases::{AGGREGATE_TYPE, Case, Fate};
use crate::commands::{TOTAL, business_id, transactions};
use crate::programs::{self, folder};

const COLUMNS: [&str; 12] = [
    "event_id",
    "event_type",
    "aggregate_type",
    "aggregate_id",
    "event_key",
    "payload",
    "payload_bytes",
    "content_type",
    "headers",
    "priority",
    "available_at",
    "created_at",
];

/// The cases as a script.
pub(crate) fn script(cases: &[Case]) -> String {
    let mut script = String::from("\\set ON_ERROR_STOP on\n");
    for transaction in transactions(cases) {
        script.push_str("BEGIN;\n");
        for case in transaction {
            let (order, values) = (text(Some(&business_id(case))), literals(case));
            writeln!(script, "INSERT INTO orders (id, total) VALUES ({order}, 0);")
                .expect("a string takes it");
            let event = match case.called {
                true => call(&values),
                false => format!(
                    "INSERT INTO outbox ({}) VALUES ({})",
                    COLUMNS.join(", "),
                    values.join(", ")
                ),
            };
            writeln!(script, "{event};").expect("a string takes it");
        }
        let rolled_back = transaction[0].fate == Fate::RolledBack;
        script.push_str(if rolled_back { "ROLLBACK;\n" } else { "COMMIT;\n" });
    }
    script
}

pub(crate) fn run_script(url: &str, script: &str) {
    let mut command = psql(url);
    command.args(["--quiet", "--output=/dev/null", "--file=-"]);
    programs::feed(command, script);
}

/// The very file that the page shows.
pub(crate) fn run_order(url: &str) {
    let mut command = psql(url);
    command.args(["--quiet", "--set=order=order"]);
    command.arg(format!("--set=total={TOTAL}"));
    command.arg("--file").arg(folder("psql").join("order.sql"));
    programs::feed(command, "");
}

fn psql(url: &str) -> Command {
    let mut command = Command::new(Path::new("psql"));
    command.args(["--no-psqlrc", "--dbname", url]);
    command
}

/// `outbox_send` has no `created_at`.
fn call(values: &[String; 12]) -> String {
    let named: Vec<String> = COLUMNS[..11]
        .iter()
        .zip(values)
        .map(|(column, value)| format!("{column} => {value}"))
        .collect();
    format!("SELECT outbox_send({})", named.join(", "))
}

fn literals(case: &Case) -> [String; 12] {
    let bytes = case.bytes.as_ref().map(|bytes| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("'\\x{digits}'")
    });
    let null = || "NULL".to_owned();
    [
        text(case.id.as_deref()),
        text(Some(case.event_type)),
        text(Some(AGGREGATE_TYPE)),
        text(Some(&case.name)),
        text(case.key),
        text(case.payload.as_deref()),
        bytes.unwrap_or_else(null),
        text(case.content_type),
        text(case.headers),
        case.priority.map_or_else(null, |number| number.to_string()),
        text(case.available_at),
        text(case.created_at),
    ]
}

/// Within plain quotes only the quote itself is special: backslashes, colons and line ends are themselves.
fn text(value: Option<&str>) -> String {
    value.map_or_else(
        || "NULL".to_owned(),
        |text| format!("'{}'", text.replace('\'', "''")),
    )
}
