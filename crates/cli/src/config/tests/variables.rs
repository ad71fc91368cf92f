//! Environment variables: what they replace, and for which names.

use super::*;

/// Fault G17.
#[test]
fn variables_replace_keys_and_are_named_in_errors() {
    let config = read(
        DEFAULT,
        &[
            ("POSTRIDER__OUTBOX__MAIN__URL", "sqlite:other.db"),
            ("POSTRIDER__RELAY__BATCH_SIZE", "7"),
            ("POSTRIDER__BROKER__EVENTS__SYNC", "false"),
            ("POSTRIDER__RELAY__RETRY__JITTER", "0.5"),
            ("POSTRIDER_CONFIG", "ignored"),
            ("PATH", "/bin"),
        ],
    )
    .unwrap();
    assert_eq!(config.outboxes["main"].place.show(), "sqlite:other.db");
    assert_eq!(config.relay.settings.batch_size, 7);
    assert_eq!(config.relay.settings.retry.jitter, 0.5);
    for (name, value, wanted) in [
        ("POSTRIDER__RELAY__BATCH_SIZE", "0", "from 1 to 100000"),
        ("POSTRIDER__RELAY__BATCHSIZE", "1", "did you mean `batch_size`?"),
        ("POSTRIDER__RELAY", "1", "two underscores"),
        ("POSTRIDER__ROUTE__TO", "1", "is a list"),
        (
            "POSTRIDER__OUTBOX__MAIN__URL",
            "sqlite:a.db\nx",
            "control characters",
        ),
        ("POSTRIDER__OUTBOX__MAIN__URL__X", "1", "is not a table"),
    ] {
        let error = read(DEFAULT, &[(name, value)]).unwrap_err().to_string();
        assert!(error.contains(wanted) && error.contains(name), "{error}");
    }
}

/// Fault G17. A slip in the name would otherwise make a second outbox, and the first would keep what was to be
/// replaced.
#[test]
fn a_variable_for_a_name_that_the_file_does_not_have_is_refused() {
    let file = DEFAULT.replace("main", "shop");
    for (name, wanted) in [
        ("POSTRIDER__OUTBOX__SHOPP__URL", "did you mean `shop`?"),
        (
            "POSTRIDER__OUTBOX__ELSEWHERE__POSTGRES__SCHEMA",
            "known here: shop",
        ),
        ("POSTRIDER__BROKER__EVENT__URL", "did you mean `events`?"),
    ] {
        let error = read(&file, &[(name, "file:x")]).unwrap_err().to_string();
        assert!(error.contains(wanted) && error.contains(name), "{error}");
        assert!(error.contains("postrider.toml has no"), "{error}");
    }
}

#[test]
fn variables_alone_may_name_what_no_file_names() {
    let rest = "[[route]]\nto = [{ broker = \"rabbit\" }]";
    let variables = [
        ("POSTRIDER__OUTBOX__SHOP__URL", "sqlite:shop.db"),
        ("POSTRIDER__OUTBOX__SHOP__PREFIX", "shop"),
        ("POSTRIDER__OUTBOX__STOCK__URL", "sqlite:stock.db"),
        ("POSTRIDER__BROKER__RABBIT__URL", "memory:"),
    ];
    let config = read(rest, &variables).unwrap();
    assert!(config.outboxes.keys().eq(["shop", "stock"]) && config.brokers.contains_key("rabbit"));
    let pairs = variables.map(|(name, value)| (name.into(), value.into()));
    let config = parse(Origin::Embedded, DEFAULT, pairs).unwrap();
    assert!(config.outboxes.contains_key("shop"));
}
