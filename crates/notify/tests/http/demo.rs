//! The page of the demo.

use postrider_core::Secret;
use postrider_notify::http::{Options, sign};
use serde_json::json;

use crate::support::{demo, with_people};

#[tokio::test]
async fn the_page_is_there_in_a_demo_only() {
    let served = with_people(Options::default(), &["ada"]).await;
    for path in ["/demo", "/demo/app.js", "/demo/style.css", "/demo/state"] {
        served.ask().get(path).await.refused(404);
    }
    let served = with_people(Options::default().demo(demo()), &["ada"]).await;
    for (path, content_type) in [
        ("/demo", "text/html"),
        ("/demo/app.js", "text/javascript"),
        ("/demo/style.css", "text/css"),
    ] {
        let answer = served.ask().get(path).await;
        assert_eq!(answer.code, 200, "{path}");
        assert!(answer.head.contains(content_type), "{}", answer.head);
        let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'";
        assert!(answer.head.contains(policy), "{}", answer.head);
        assert!(answer.head.contains("frame-ancestors 'none'"), "{}", answer.head);
        // Text becomes markup nowhere, nothing is loaded from elsewhere, and nothing is in the page that its policy
        // would have to make an exception for.
        for never in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "://",
            "eval(",
            " style=",
            " onclick=",
        ] {
            assert!(!answer.body.contains(never), "{path} has {never}");
        }
    }
}

#[tokio::test]
async fn something_happens_to_whom_the_demo_knows() {
    let options = Options::default().token("t").secret("s3cret").demo(demo());
    let served = with_people(options, &["ada", "stranger"]).await;
    let state = served.ask().get("/demo/state").await.is(200);
    let signature = sign(&Secret::new("s3cret"), "ada");
    assert_eq!(
        state["users"][0],
        json!({ "id": "ada", "name": "ADA", "signature": signature })
    );
    assert_eq!(state["samples"], json!(["An order is shipped"]));
    assert_eq!(state["channels"], json!(["in_app", "email", "push"]));
    for _ in 0..2 {
        served
            .ask()
            .post("/demo/events", &json!({ "user": "ada", "sample": 0 }))
            .await
            .is(202);
    }
    let unread = served
        .ask()
        .signature(&signature)
        .get("/feed/ada/unread")
        .await
        .is(200);
    assert_eq!(unread, json!({ "unread": 2 }), "each time anew");
    for wrong in [
        json!({ "user": "stranger", "sample": 0 }),
        json!({ "user": "ada", "sample": 1 }),
    ] {
        served.ask().post("/demo/events", &wrong).await.refused(404);
    }
    let form = served
        .ask()
        .raw("POST", "/demo/events", "Content-Type: text/plain\r\n", b"{}")
        .await;
    form.refused(415);
}
