//! The limits, from both sides.

use proptest::prelude::*;

use super::*;
use crate::EventBuilder;

fn builder() -> EventBuilder {
    Event::builder("OrderPlaced").aggregate("ORDER", "42").json("{}")
}

fn error(builder: EventBuilder) -> String {
    builder.build().expect_err("must be refused").to_string()
}

/// Fault G6.
#[test]
fn the_edges_of_every_limit_are_allowed() {
    let long = "é".repeat(255);
    let mut event = builder()
        .id(&long)
        .aggregate(&long, &long)
        .key(&long)
        .header(
            "a".repeat(limits::HEADER_NAME),
            "é".repeat(limits::HEADER_VALUE / 2),
        )
        .header("empty", "")
        .content_type(format!(
            "application/json; a={}",
            "b".repeat(limits::CONTENT_TYPE - 20)
        ))
        .build()
        .unwrap();
    assert_eq!(event.content_type().len(), limits::CONTENT_TYPE);
    event.payload = Payload::Bytes(vec![0; limits::PAYLOAD].into());
    event.content_type = None;
    assert_eq!(event.validate(), Ok(()));
    let headers = (0..limits::HEADERS).map(|n| (format!("h{n}"), String::new()));
    event.headers = headers.collect();
    assert_eq!(event.validate(), Ok(()));
}

/// Faults G7 and G8.
#[test]
fn each_breach_names_the_field_and_the_limit() {
    let long = "é".repeat(256);
    assert_eq!(
        error(builder().id("")),
        "event_id: is empty; it needs 1 to 255 characters"
    );
    assert_eq!(
        error(builder().id(&long)),
        "event_id: has 256 characters; at most 255 are allowed"
    );
    assert_eq!(
        error(builder().id("a\0b")),
        "event_id: has the control character U+0000 at position 2; none is allowed"
    );
    assert_eq!(
        error(Event::builder("").aggregate("A", 1)),
        "event_type: is empty; it needs 1 to 255 characters"
    );
    assert_eq!(
        error(builder().key("")),
        "event_key: is empty; it needs 1 to 255 characters"
    );
    assert!(error(builder().key("\u{1f}replay")).contains("U+001F"));
    assert!(error(builder().aggregate(&long, 1)).starts_with("aggregate_type: has 256"));
    assert!(error(builder().aggregate("A", &long)).starts_with("aggregate_id: has 256"));
    assert!(
        error(builder().aggregate("A", "")).starts_with("aggregate_id: is empty and there is no event_key")
    );
    assert!(builder().aggregate("", "").key("k").build().is_ok());
    assert!(error(builder().available_at(Timestamp(i64::MAX))).starts_with("available_at: is infinity;"));
    assert!(error(builder().available_at(Timestamp(i64::MAX - 1))).starts_with("available_at: is +294247-"));
    for content_type in ["json", "a/b/c", "é/b", "a/b\r\nx: y", "/", " a/b"] {
        assert!(
            error(builder().content_type(content_type)).starts_with("content_type: must be"),
            "{content_type}"
        );
    }
    assert!(error(builder().content_type("a".repeat(256))).ends_with("at most 255 are allowed"));
}

/// Fault G8.
#[test]
fn headers_cannot_be_smuggled() {
    let crlf = error(builder().header("a", "b\r\nx: y"));
    assert_eq!(
        crlf,
        "headers: the value of \"a\" has the control character U+000D at position 2; none is allowed"
    );
    for name in ["", "a b", "a:", "a\n", "é", &"a".repeat(129)] {
        assert!(
            error(builder().header(name, "")).starts_with("headers: "),
            "{name}"
        );
    }
    for name in [
        "Postrider-X",
        "postrider-",
        "Event-Id",
        "content-type",
        "Nats-Msg-Id",
    ] {
        assert!(
            error(builder().header(name, "")).ends_with("is reserved; choose another"),
            "{name}"
        );
    }
    assert!(error(builder().header("a", "").header("A", "")).contains("in case only"));
    assert!(error(builder().header("a", "x".repeat(4097))).contains("at most 4096"));
    let many = (0..=limits::HEADERS).fold(builder(), |builder, n| builder.header(format!("h{n}"), ""));
    assert_eq!(error(many), "headers: has 65 entries; at most 64 are allowed");
}

/// Fault G6.
#[test]
fn payloads_are_what_they_say() {
    assert!(
        error(builder().json("{"))
            .starts_with("payload: is not JSON, though its content type is application/json")
    );
    assert!(error(builder().json("")).contains("leave it out"));
    assert!(error(builder().json("[".repeat(1 << 20))).starts_with("payload: is not JSON"));
    assert!(error(builder().json("[".repeat(101) + &"]".repeat(101))).contains("nested deeper than 100"));
    assert!(error(builder().json("\\x7b7d")).contains("payload_bytes"));
    assert!(error(builder().text("\\x", "text/plain")).contains("payload_bytes"));
    assert!(
        error(builder().bytes(vec![0xff]).content_type("application/json")).contains("not UTF-8 at byte 0")
    );
    assert!(error(builder().bytes(vec![0; limits::PAYLOAD + 1])).contains("at most 16777216"));
    assert!(builder().text("", "text/plain").build().is_ok());
    assert!(builder().bytes(vec![]).build().is_ok());
    assert!(Event::builder("Gone").aggregate("A", 1).build().is_ok());
    let unwritable = std::collections::BTreeMap::from([((1, 2), 3)]);
    assert!(error(builder().payload(&unwritable)).starts_with("payload: cannot be written as JSON"));
}

proptest! {
    #[test]
    fn no_input_makes_it_panic(
        id in any::<String>(), key in any::<String>(), name in any::<String>(), value in any::<String>(),
        content_type in any::<String>(), payload in any::<String>(), time in any::<i64>(),
    ) {
        let _ = builder().id(id).key(key).header(name, value).available_at(Timestamp(time))
            .text(payload, content_type).build();
    }
}
