//! What services ask for.

use std::sync::atomic::Ordering;

use postrider_notify::Recipient;
use postrider_notify::http::Options;
use serde_json::json;

use crate::support::{served, shipped, with_people};

#[tokio::test]
async fn the_same_request_twice_is_one_notification() {
    let served = with_people(Options::default(), &["ada"]).await;
    let ask = served.ask().key("k1");
    let first = ask.post("/notifications", &shipped("ada", "A-1")).await.is(201);
    let second = ask.post("/notifications", &shipped("ada", "A-1")).await.is(200);
    assert_eq!(second["status"], "success");
    assert_eq!(second["message"], "already exists (idempotent)");
    assert_eq!(first["notification"]["id"], second["notification"]["id"]);
    assert_eq!(first["notification"]["title"], "About A-1");
    assert_eq!(first["event_id"], second["event_id"]);
    for answer in [&first, &second] {
        let deliveries = answer["deliveries"].as_array().unwrap();
        let find = |channel: &str| deliveries.iter().find(|one| one["channel"] == channel).unwrap();
        assert_eq!(find("in_app")["state"], "stored");
        assert_eq!(
            find("email")["state"],
            "impossible",
            "nobody said where her mail goes"
        );
    }
    let id = &first["notification"]["id"];
    let one = served.ask().get(&format!("/notifications/{id}")).await.is(200);
    assert_eq!(one["notification"], first["notification"]);
    let unread = served.ask().get("/feed/ada/unread").await.is(200);
    assert_eq!(unread, json!({ "unread": 1 }));
}

/// Where nothing is stored that could be compared, and where nothing is told at all.
#[tokio::test]
async fn a_key_is_for_one_digest_or_topic_only() {
    let served = with_people(Options::default(), &["ada", "ben"]).await;
    let mut liked = shipped("ada", "A-1");
    liked["event_type"] = json!("PostLiked");
    let ask = served.ask().key("digest");
    ask.post("/notifications", &liked).await.is(202);
    let mut other = liked.clone();
    other["payload"] = json!({ "order": "A-2" });
    let refused = ask.post("/notifications", &other).await;
    assert_eq!(refused.refused(422), "idempotency_key_reused");
    ask.post("/notifications", &liked).await.is(200);
    // A topic that nobody is in, and then somebody: its key was for nothing, so it may be used.
    let ask = served.ask().key("topic");
    let to = |topic: &str| {
        let mut body = shipped("ada", "A-1");
        body["to"] = json!({ "topic": topic });
        body
    };
    ask.post("/notifications", &to("nobody")).await.is(202);
    served.board.subscribe("all", &["ada".to_owned()]).await.unwrap();
    ask.post("/notifications", &to("all")).await.is(202);
    let refused = ask.post("/notifications", &to("others")).await;
    assert_eq!(refused.refused(422), "idempotency_key_reused");
}

#[tokio::test]
async fn of_two_at_once_with_one_key_one_counts() {
    let served = with_people(Options::default(), &["ada", "ben"]).await;
    for n in 0..10 {
        let ask = served.ask().key(&format!("k{n}"));
        let (ada, ben) = (shipped("ada", "A-1"), shipped("ben", "A-1"));
        let answers = tokio::join!(ask.post("/notifications", &ada), ask.post("/notifications", &ben));
        let mut codes = [answers.0.code, answers.1.code];
        codes.sort_unstable();
        assert_eq!(codes, [201, 422], "{answers:?}");
    }
}

/// Whoever delivers is told at once, and only when there is something to deliver.
#[tokio::test]
async fn what_is_stored_rings() {
    let served = with_people(Options::default(), &["ada"]).await;
    let ask = served.ask().key("k1");
    let rung = || served.bell.load(Ordering::SeqCst);
    ask.post("/notifications", &shipped("ada", "A-1")).await.is(201);
    assert_eq!(rung(), 1);
    ask.post("/notifications", &shipped("ada", "A-1")).await.is(200);
    served.ask().get("/recipients/ada").await.is(200);
    assert_eq!(rung(), 1);
    let mut all = shipped("ada", "A-2");
    all["to"] = json!({ "topic": "t" });
    served.board.subscribe("t", &["ada".to_owned()]).await.unwrap();
    served.ask().key("k2").post("/notifications", &all).await.is(202);
    assert_eq!(rung(), 2);
}

#[tokio::test]
async fn a_key_is_for_one_notification_only() {
    let served = with_people(Options::default(), &["ada", "ben"]).await;
    let ask = served.ask().key("k1");
    ask.post("/notifications", &shipped("ada", "A-1")).await.is(201);
    let mut followed = shipped("ada", "A-1");
    followed["event_type"] = json!("UserFollowed");
    for other in [shipped("ada", "A-2"), shipped("ben", "A-1"), followed] {
        let refused = ask.post("/notifications", &other).await;
        assert_eq!(refused.refused(422), "idempotency_key_reused");
    }
    for (user, count) in [("ada", 1), ("ben", 0)] {
        let unread = served.ask().get(&format!("/feed/{user}/unread")).await.is(200);
        assert_eq!(unread["unread"], count, "{user}");
    }
}

#[tokio::test]
async fn two_at_once_are_one() {
    let served = with_people(Options::default(), &["ada"]).await;
    for round in 0..20 {
        let ask = served.ask().key(&format!("round {round}"));
        let body = shipped("ada", &format!("A-{round}"));
        let (one, other) = tokio::join!(
            ask.post("/notifications", &body),
            ask.post("/notifications", &body)
        );
        let mut codes = [one.code, other.code];
        codes.sort_unstable();
        assert_eq!(codes, [200, 201], "{} {}", one.body, other.body);
        assert_eq!(
            one.json()["notification"]["id"],
            other.json()["notification"]["id"]
        );
        let event = one.json()["event_id"].as_str().unwrap().to_owned();
        let found = served
            .ask()
            .get(&format!("/notifications?event_id={event}"))
            .await
            .is(200);
        assert_eq!(found["notifications"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn another_event_about_the_same_is_answered_with_what_is_there() {
    let served = with_people(Options::default(), &["ada"]).await;
    let mut body = shipped("ada", "f-1");
    body["event_type"] = json!("UserFollowed");
    let first = served.ask().key("a").post("/notifications", &body).await.is(201);
    let second = served.ask().key("b").post("/notifications", &body).await.is(200);
    assert_eq!(first["notification"]["id"], second["notification"]["id"]);
}

#[tokio::test]
async fn an_id_of_the_event_counts_as_a_key() {
    let served = with_people(Options::default(), &["ada"]).await;
    let mut body = shipped("ada", "A-1");
    let refused = served.ask().post("/notifications", &body).await;
    assert_eq!(refused.refused(400), "idempotency_key");
    body["event_id"] = json!("order-1-shipped");
    let first = served.ask().post("/notifications", &body).await.is(201);
    assert_eq!(first["notification"]["event_id"], "order-1-shipped");
    served
        .ask()
        .key("ignored")
        .post("/notifications", &body)
        .await
        .is(200);
}

#[tokio::test]
async fn what_cannot_be_told_says_why() {
    let served = with_people(Options::default(), &["ada"]).await;
    let ask = served.ask().key("k");
    let refused = ask.post("/notifications", &shipped("nobody", "A-1")).await;
    assert_eq!(refused.refused(404), "not_found");
    let mut body = shipped("ada", "A-1");
    body["event_type"] = json!("Unheard");
    assert_eq!(ask.post("/notifications", &body).await.refused(422), "occasion");
    for (field, wrong) in [
        ("to", json!({ "broadcast": false })),
        ("to", json!({ "user": "ada", "topic": "x" })),
        ("to", json!({})),
        ("to", json!({ "user": "" })),
        ("payload", json!([1])),
        ("event_type", json!("")),
        ("surprise", json!(1)),
    ] {
        let mut body = shipped("ada", "A-1");
        body[field] = wrong;
        assert_eq!(
            ask.post("/notifications", &body).await.refused(422),
            "invalid",
            "{body}"
        );
    }
    let muted = json!({ "preferences": [{ "category": "orders", "on": false }] });
    served
        .ask()
        .put("/recipients/ada/preferences", &muted)
        .await
        .is(200);
    let quiet = ask.post("/notifications", &shipped("ada", "A-1")).await.is(200);
    assert_eq!(
        (&quiet["status"], &quiet["notification"]),
        (&json!("success"), &json!(null))
    );
    for path in ["/notifications/4711", "/notifications/x", "/notifications/-1"] {
        served.ask().get(path).await.refused(404);
    }
    served.ask().get("/notifications").await.refused(422);
    served
        .ask()
        .get("/notifications?event_id=x&limit=0")
        .await
        .refused(422);
}

#[tokio::test]
async fn a_broadcast_goes_on_by_itself() {
    let served = with_people(Options::default(), &["ada", "ben", "cem"]).await;
    let ids = json!({ "ids": ["ada", "ben", "cem"] });
    let subscribed = served
        .ask()
        .post("/topics/customer/subscribers", &ids)
        .await
        .is(200);
    assert_eq!(subscribed, json!({ "subscribed": 3 }));
    let body = json!({
        "event_type": "OrderShipped", "audience": "CUSTOMER",
        "to": { "broadcast": true }, "payload": { "order": "all" },
    });
    let ask = served.ask().key("everybody/1?");
    let answer = ask.post("/notifications", &body).await.is(202);
    while served.board.step().await.unwrap().is_some() {}
    let progress = answer["progress"].as_str().unwrap();
    let found = served.ask().get(progress).await.is(200);
    assert_eq!(found["notifications"].as_array().unwrap().len(), 3);
    assert_eq!(found["more"], false);
    let again = ask.post("/notifications", &body).await.is(202);
    assert_eq!(
        (&again["event_id"], &again["stored"]),
        (&answer["event_id"], &json!(0))
    );
    let mut other = body.clone();
    other["payload"] = json!({ "order": "another" });
    assert_eq!(
        ask.post("/notifications", &other).await.refused(422),
        "idempotency_key_reused"
    );
    while served.board.step().await.unwrap().is_some() {}
    let found = served.ask().get(progress).await.is(200);
    assert_eq!(
        found["notifications"].as_array().unwrap().len(),
        3,
        "nobody is told twice"
    );
}

#[tokio::test]
async fn how_far_a_large_fan_out_is_can_be_asked() {
    let served = served(Options::default()).await;
    let ids: Vec<String> = (0..1_050).map(|number| format!("u{number:04}")).collect();
    for id in &ids {
        let recipient = Recipient {
            id: id.clone(),
            ..Recipient::default()
        };
        served.board.put(&recipient).await.unwrap();
    }
    served.board.subscribe("news", &ids).await.unwrap();
    let body = json!({
        "event_type": "OrderShipped", "audience": "CUSTOMER", "to": { "topic": "news" }, "payload": { "order": "all" },
    });
    let answer = served.ask().key("k").post("/notifications", &body).await.is(202);
    assert_eq!(
        (&answer["stored"], &answer["goes_on"]),
        (&json!(1_000), &json!(true))
    );
    let progress = answer["progress"].as_str().unwrap();
    let half = served.ask().get(progress).await.is(200);
    assert_eq!(
        half["fan_out"],
        json!({ "stored": 1_000, "finished": false, "problem": null })
    );
    assert_eq!(half["more"], true);
    while served.board.step().await.unwrap().is_some() {}
    let whole = served.ask().get(progress).await.is(200);
    assert_eq!(
        whole["fan_out"],
        json!({ "stored": 1_050, "finished": true, "problem": null })
    );
}

#[tokio::test]
async fn people_come_and_go() {
    let served = served(Options::default()).await;
    let ask = served.ask();
    ask.get("/recipients/ada").await.refused(404);
    ask.delete("/recipients/ada").await.refused(404);
    let ada = json!({ "name": "Ada", "email": "ada@example.com", "locale": "de", "topics": ["b", "a"] });
    let put = ask.put("/recipients/ada", &ada).await.is(200);
    assert_eq!(put["topics"], json!(["a", "b"]));
    let again = json!({ "id": "ada", "name": "Ada L", "topics": ["c", "b"] });
    ask.put("/recipients/ada", &again).await.is(200);
    let got = ask.get("/recipients/ada").await.is(200);
    assert_eq!((&got["name"], &got["email"]), (&json!("Ada L"), &json!(null)));
    assert_eq!(got["topics"], json!(["b", "c"]));
    let put = ask.put("/recipients/ada", &json!({})).await.is(200);
    assert_eq!(put["topics"], json!(["b", "c"]), "left out, they stay");
    ask.put("/recipients/ada", &json!({ "id": "ben" }))
        .await
        .refused(422);
    ask.put("/recipients/ada", &json!({ "name": "a\u{7}" }))
        .await
        .refused(422);
    ask.put("/recipients/ada", &json!({ "topics": [""] }))
        .await
        .refused(422);
    assert_eq!(ask.delete("/recipients/ada").await.code, 204);
    ask.get("/recipients/ada").await.refused(404);
}

/// Whoever gives an address is told while they are there to correct it.
#[tokio::test]
async fn addresses_that_nothing_can_be_sent_to_are_refused() {
    let near = served(Options::default()).await;
    let private = served(Options::default().private_push(true)).await;
    for (person, where_private) in [
        (json!({ "email": "not an address" }), 422),
        (json!({ "email": "a..b@example.com" }), 422),
        (json!({ "push_url": "ftp:/x" }), 422),
        (json!({ "push_url": "http://push.example.com/x" }), 200),
        (json!({ "push_url": "https://127.0.0.1:9/x" }), 200),
        (json!({ "push_url": "https://[fd00::1]/x" }), 200),
        (json!({ "push_url": "https://localhost/x" }), 200),
    ] {
        let refused = near.ask().put("/recipients/ada", &person).await;
        assert_eq!(refused.refused(422), "invalid", "{person}");
        let answer = private.ask().put("/recipients/ada", &person).await;
        assert_eq!(answer.code, where_private, "{person}: {answer:?}");
    }
    let good = json!({ "email": "ada@example.com", "push_url": "https://push.example.com/x" });
    near.ask().put("/recipients/ada", &good).await.is(200);
    let none = json!({ "email": "", "push_url": null });
    near.ask().put("/recipients/ada", &none).await.is(200);
}

#[tokio::test]
async fn topics_are_subscribed_to_and_left() {
    let served = with_people(Options::default(), &["ada"]).await;
    let ask = served.ask();
    let put = |id: &'static str| {
        let ask = ask.clone();
        async move {
            ask.put(&format!("/topics/news%2Feu/subscribers/{id}"), &json!({}))
                .await
        }
    };
    assert_eq!(put("ada").await.is(200), json!({ "subscribed": 1 }));
    assert_eq!(put("ada").await.is(200), json!({ "subscribed": 0 }));
    put("nobody").await.refused(404);
    assert_eq!(
        ask.get("/recipients/ada").await.is(200)["topics"],
        json!(["news/eu"])
    );
    let gone = ask.delete("/topics/news%2Feu/subscribers/ada").await.is(200);
    assert_eq!(gone, json!({ "unsubscribed": 1 }));
    let many: Vec<String> = (0..1_001).map(|number| number.to_string()).collect();
    ask.post("/topics/news/subscribers", &json!({ "ids": many }))
        .await
        .refused(422);
}
