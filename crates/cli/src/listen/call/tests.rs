//! What a status means, and what is said to the other side.

use postrider_core::{Address, Envelope, Event, Incoming, Secret, encode};

use super::*;

fn post() -> Post {
    let url = Webhook::new(Secret::new("http://shop.example/s3cret")).unwrap();
    Post::new(url, Duration::from_secs(1), "billing")
}

fn judged(status: u16, retry_after: Option<&str>) -> Result<(), CallError> {
    post().judge(&Answered {
        status,
        retry_after: retry_after.map(str::to_owned),
    })
}

#[track_caller]
fn refused(status: u16, retry_after: Option<&str>) -> HandlerError {
    match judged(status, retry_after) {
        Err(CallError::Handler(error)) => error,
        other => panic!("{status}: {other:?}"),
    }
}

#[test]
fn the_status_decides() {
    for status in [200, 201, 202, 204, 299] {
        assert!(judged(status, None).is_ok(), "{status}");
    }
    for status in [401, 403, 404, 405, 408, 425, 500, 502, 503, 504, 301, 302, 307] {
        let error = refused(status, None);
        assert_eq!(
            (error.may_pass(), error.blamed()),
            (true, Blame::Unclear),
            "{status}"
        );
    }
    assert_eq!(refused(429, None).blamed(), Blame::Nobody);
    for status in [400, 402, 406, 407, 409, 410, 413, 422] {
        assert!(!refused(status, None).may_pass(), "{status}");
    }
    let text = refused(400, None).to_string();
    assert!(
        text.contains("shop.example answered 400") && !text.contains("s3cret"),
        "{text}"
    );
}

#[test]
fn it_is_left_alone_for_as_long_as_it_asks() {
    let pause = |text: &str| refused(503, Some(text)).pause();
    assert_eq!(pause("7"), Some(Duration::from_secs(7)));
    let at = jiff::Timestamp::now() + Duration::from_secs(90);
    let zoned = at.to_zoned(jiff::tz::TimeZone::UTC);
    let asked = pause(&zoned.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()).unwrap();
    assert!((85..=90).contains(&asked.as_secs()), "{asked:?}");
    for nonsense in ["", "soon", "-3", "Wed, 21 Oct 2015 07:28:00 GMT"] {
        assert_eq!(pause(nonsense), None, "{nonsense}");
    }
}

#[test]
fn a_producer_sets_no_header_of_http() {
    let event = Event::builder("OrderPlaced")
        .id("e-1")
        .key("42")
        .json("{}")
        .header("traceparent", "00-ab-cd-01")
        .header("Authorization", "Bearer stolen")
        .header("transfer-encoding", "chunked")
        .build()
        .unwrap();
    let key = event.order_key();
    let message = encode(Envelope::Flat, &event, &key, Address::default(), String::new()).unwrap();
    let incoming = Incoming {
        message,
        tag: 1,
        redelivered: 2,
    };
    let event = Received::open(Envelope::Flat, &incoming).unwrap();
    let post = post();
    let headers = post.headers(&event);
    let value = |name: &str| {
        let mut found = headers.iter().filter(|(it, _)| it == name);
        let first = found.next().map(|(_, value)| value.to_string());
        assert!(found.next().is_none(), "{name} is there once");
        first.unwrap_or_default()
    };
    assert_eq!(
        (value("idempotency-key"), value("event-id")),
        ("e-1".into(), "e-1".into())
    );
    assert_eq!(
        (value("event-type"), value("event-key")),
        ("OrderPlaced".into(), "42".into())
    );
    assert_eq!(
        (value("postrider-attempt"), value("postrider-redelivered")),
        ("1".into(), "2".into())
    );
    assert_eq!(value("traceparent"), "00-ab-cd-01");
    for name in ["authorization", "Authorization", "transfer-encoding"] {
        assert_eq!(value(name), "");
    }
    assert_eq!(value("event-header-Authorization"), "Bearer stolen");
}
