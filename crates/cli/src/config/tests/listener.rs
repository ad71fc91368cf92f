//! Where the dead letters of a listener may go.

use super::*;

const BROKERS: &str = r#"
[broker.mq]
url = "amqp://mq/shop"
[broker.same]
url = "amqp://billing:pa55@mq/shop"
[broker.other]
url = "amqp://mq/other"
[broker.twice]
url = "file:./events.jsonl"
[broker.dead]
url = "file:dead.jsonl"
"#;

fn reading(from: &str, dead_letters: &str) -> Result<Config, Box<ConfigError>> {
    with(&format!(
        "{BROKERS}\n[listener.billing]\nurl = \"http://127.0.0.1:1/x\"\n{from}\ndead_letters = {{ {dead_letters} }}"
    ))
}

/// Fault D10. What is read again as soon as it is written is refused for ever, at full speed.
#[test]
fn dead_letters_do_not_go_where_they_came_from() {
    let (queue, file) = ("broker = \"mq\"\nqueue = \"billing\"", "broker = \"events\"");
    for (from, dead_letters) in [
        (queue, "routing_key = \"billing\""),
        (queue, "exchange = \"\", routing_key = \"billing\""),
        (queue, "broker = \"mq\", routing_key = \"billing\""),
        (queue, "broker = \"same\", routing_key = \"billing\""),
        (file, "broker = \"events\""),
        (file, "broker = \"twice\""),
        (file, "path = \"events.jsonl\""),
        (file, "broker = \"dead\", path = \"events.jsonl\""),
    ] {
        let error = reading(from, dead_letters).expect_err(dead_letters).to_string();
        assert!(
            error.contains("dead letters must go somewhere else"),
            "{dead_letters}: {error}"
        );
        assert!(!error.contains("pa55"), "{error}");
    }
    for (from, dead_letters) in [
        (queue, "routing_key = \"billing.dead\""),
        (queue, "exchange = \"dead\", routing_key = \"billing\""),
        (queue, "broker = \"other\", routing_key = \"billing\""),
        (queue, "broker = \"dead\""),
        (file, "broker = \"dead\""),
        (file, "path = \"letters.jsonl\""),
        (file, "broker = \"mq\", routing_key = \"events.jsonl\""),
    ] {
        let read = reading(from, dead_letters);
        read.unwrap_or_else(|error| panic!("{dead_letters}: {error}"));
    }
}
