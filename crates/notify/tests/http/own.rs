//! Over HTTP, with people who are kept elsewhere.

use postrider_core::BoxFuture;
use postrider_notify::http::Options;
use postrider_notify::{People, PeopleError, Recipient, To};
use serde_json::json;

use crate::support::{served_with, shipped};

/// Ada, and a directory that has no answer about ben.
struct Town;

impl People for Town {
    fn find<'a>(
        &'a self,
        to: &'a To,
        after: Option<&'a str>,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<Recipient>, PeopleError>> {
        Box::pin(async move {
            let ada = Recipient {
                id: "ada".to_owned(),
                name: "Ada".to_owned(),
                ..Recipient::default()
            };
            match to {
                To::User(id) if id == "ada" => Ok(vec![ada]),
                To::User(id) if id == "ben" => Err("the town hall is closed".into()),
                To::Topic(_) if after.is_none() => Ok(vec![ada]),
                _ => Ok(Vec::new()),
            }
        })
    }
}

#[tokio::test]
async fn people_are_asked_for_and_not_changed() {
    let served = served_with(Options::default(), Town).await;
    let ask = served.ask();
    let sent = ask
        .key("k1")
        .post("/notifications", &shipped("ada", "A-1"))
        .await
        .is(201);
    assert_eq!(sent["message"], "stored");
    let closed = ask.key("k2").post("/notifications", &shipped("ben", "A-1")).await;
    assert_eq!(closed.refused(503), "directory");
    let nobody = ask.key("k3").post("/notifications", &shipped("cid", "A-1")).await;
    assert_eq!(nobody.refused(404), "not_found");
    let (one, ids) = (json!({}), json!({ "ids": ["ada"] }));
    for changed in [
        ask.put("/recipients/ada", &one).await,
        ask.post("/topics/t/subscribers", &ids).await,
        ask.put("/topics/t/subscribers/ada", &one).await,
        ask.delete("/topics/t/subscribers/ada").await,
    ] {
        assert_eq!(changed.refused(409), "own_directory");
    }
    let said = json!({ "preferences": [{ "category": "orders", "on": false }] });
    ask.put("/recipients/ada/preferences", &said).await.is(200);
    ask.put("/recipients/cid/preferences", &said).await.is(404);
    let ada = ask.get("/recipients/ada").await.is(200);
    assert_eq!((&ada["name"], &ada["topics"]), (&json!("Ada"), &json!(null)));
    assert_eq!(ada["preferences"].as_array().unwrap().len(), 1);
    let muted = ask
        .key("k4")
        .post("/notifications", &shipped("ada", "A-2"))
        .await
        .is(200);
    assert!(
        muted["message"].as_str().unwrap().contains("wants none"),
        "{muted}"
    );
    ask.delete("/recipients/ada").await.is(204);
    ask.key("k5")
        .post("/notifications", &shipped("ada", "A-3"))
        .await
        .is(201);
}
