//! Ids, bodies and requests that nobody means well with.

use postrider_notify::http::Options;
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::ask::JSON;
use crate::support::{served, shipped, with_people};

#[tokio::test]
async fn ids_may_hold_anything_that_a_text_may() {
    let served = served(Options::default()).await;
    let ask = served.ask();
    let long = "é".repeat(120);
    for id in [
        "a/b/../c",
        "100%",
        "..",
        "ä ö",
        "日本語",
        "a'; DROP TABLE notification; --",
        "%2F",
        "?x=1#y",
        "\u{202e}x",
        &long,
    ] {
        let path = escaped(id);
        let put = ask
            .put(&format!("/recipients/{path}"), &json!({ "topics": [id] }))
            .await
            .is(200);
        assert_eq!((&put["id"], &put["topics"]), (&json!(id), &json!([id])));
        ask.key(&path[..path.len().min(250)])
            .post("/notifications", &shipped(id, "A-1"))
            .await
            .is(201);
        let unread = ask.get(&format!("/feed/{path}/unread")).await.is(200);
        assert_eq!(unread, json!({ "unread": 1 }), "{id}");
        let gone = ask
            .delete(&format!("/topics/{path}/subscribers/{path}"))
            .await
            .is(200);
        assert_eq!(gone, json!({ "unsubscribed": 1 }), "{id}");
        assert_eq!(ask.delete(&format!("/recipients/{path}")).await.code, 204);
    }
}

#[tokio::test]
async fn ids_that_cannot_be_are_refused_everywhere() {
    let served = with_people(Options::default(), &["ada"]).await;
    let ask = served.ask();
    let long = "x".repeat(1_024);
    for id in [long.as_str(), "%00", "a%0Ab", "%FF", "%C3%28"] {
        for path in [
            format!("/feed/{id}"),
            format!("/feed/{id}/live"),
            format!("/recipients/{id}"),
        ] {
            assert_eq!(ask.get(&path).await.refused(422), "invalid", "{path}");
        }
        let put = ask
            .put(&format!("/topics/{id}/subscribers/ada"), &json!({}))
            .await;
        assert_eq!(put.refused(422), "invalid");
        let delete = ask.delete(&format!("/topics/t/subscribers/{id}")).await;
        assert_eq!(delete.refused(422), "invalid");
    }
    for id in [long.as_str(), "a\nb", "\0"] {
        let sent = ask.key("k").post("/notifications", &shipped(id, "A-1")).await;
        assert_eq!(sent.refused(422), "invalid");
        let many = ask
            .post("/topics/t/subscribers", &json!({ "ids": ["ada", id] }))
            .await;
        assert_eq!(many.refused(422), "invalid");
    }
    for path in ["/feed//unread", "/recipients//preferences"] {
        assert_eq!(ask.get(path).await.refused(422), "invalid", "{path}");
    }
    for path in [
        "/feed/",
        "/recipients/",
        "/feed/ada/unread/",
        "/feed/a/b",
        "/nothing",
    ] {
        assert_eq!(ask.get(path).await.refused(404), "not_found", "{path}");
    }
    assert_eq!(
        ask.key(&long)
            .post("/notifications", &shipped("ada", "A-1"))
            .await
            .refused(400),
        "idempotency_key"
    );
}

#[tokio::test]
async fn bodies_are_bounded_and_say_what_they_are() {
    let served = with_people(Options::default(), &["ada"]).await;
    let ask = served.ask().key("k");
    let body = shipped("ada", "A-1").to_string();
    for more in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
    ] {
        let answer = ask.raw("POST", "/notifications", more, body.as_bytes()).await;
        assert_eq!(answer.refused(415), "content_type");
    }
    for broken in ["", "{", "null", "[]", "\u{feff}{}", "{\"to\":1}", "{}{}"] {
        let answer = ask.raw("POST", "/notifications", JSON, broken.as_bytes()).await;
        assert_eq!(answer.refused(422), "invalid", "{broken}");
    }
    let nested = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(
        ask.raw("POST", "/notifications", JSON, nested.as_bytes())
            .await
            .refused(422),
        "invalid"
    );
    let mut large = shipped("ada", "A-1");
    large["payload"]["filler"] = json!("x".repeat(64 * 1024));
    assert_eq!(ask.post("/notifications", &large).await.refused(413), "too_large");
    // The same without saying how long it is.
    let chunked = format!("{JSON}Transfer-Encoding: chunked\r\n");
    let mut chunks = String::new();
    for _ in 0..80 {
        chunks.push_str(&format!("400\r\n{}\r\n", "x".repeat(1_024)));
    }
    chunks.push_str("0\r\n\r\n");
    let answer = ask
        .raw_chunked("POST", "/notifications", &chunked, chunks.as_bytes())
        .await;
    assert_eq!(answer.refused(413), "too_large");
    let unread = served.ask().get("/feed/ada/unread").await.is(200);
    assert_eq!(unread["unread"], 0);
}

#[tokio::test]
async fn requests_are_bounded() {
    let served = served(Options::default()).await;
    let ask = served.ask();
    let path = format!("/feed/ada?x={}", "y".repeat(9 * 1024));
    assert_eq!(ask.get(&path).await.refused(414), "too_long");
    let large = ask
        .with("X-Filler", &"y".repeat(32 * 1024))
        .get("/feed/ada")
        .await;
    assert_eq!(large.code, 431);
    let answer = ask.raw("PATCH", "/feed/ada", "", b"").await;
    assert_eq!(answer.refused(405), "method");
    assert!(answer.head.contains("allow: get"), "{}", answer.head);
    let mut stream = ask.begin("GET", "/feed/ada HTTP/9.9\r\nX:", "", b"").await;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 400"), "{text}");
}

#[tokio::test]
async fn every_answer_is_kept_by_nobody_and_framed_by_nobody() {
    let served = served(Options::default()).await;
    for path in ["/feed/ada", "/nothing", "/recipients/nobody", "/feed/ada?limit=0"] {
        let head = served.ask().get(path).await.head;
        for line in [
            "cache-control: no-store",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "x-frame-options: deny",
            "content-security-policy: default-src 'none'; frame-ancestors 'none'",
        ] {
            assert!(head.contains(line), "{path}: {line}: {head}");
        }
        assert!(!head.contains("access-control-allow"), "{path}: {head}");
    }
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}
