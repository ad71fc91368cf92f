//! What people read and say.

use postrider_notify::http::Options;
use serde_json::{Value, json};

use crate::support::{Served, with_people};

async fn five() -> Served {
    let served = with_people(Options::default(), &["ada", "ben"]).await;
    for number in 0..5 {
        served.happens(&format!("e{number}"), "ada").await;
    }
    served.happens("other", "ben").await;
    served
}

fn ids(page: &Value) -> Vec<i64> {
    let entries = page["entries"].as_array().unwrap();
    entries
        .iter()
        .map(|entry| entry["id"].as_i64().unwrap())
        .collect()
}

#[tokio::test]
async fn a_feed_is_read_in_pages() {
    let served = five().await;
    let ask = served.ask();
    let all = ids(&ask.get("/feed/ada").await.is(200));
    assert_eq!(all.len(), 5);
    assert!(all.is_sorted_by(|one, next| one > next), "newest first");
    let page = ask.get("/feed/ada?limit=2").await.is(200);
    let next = page["next"].as_i64().unwrap();
    let rest = ask.get(&format!("/feed/ada?limit=3&before={next}")).await.is(200);
    assert_eq!([ids(&page), ids(&rest)].concat(), all);
    let end = rest["next"].as_i64().unwrap();
    let end = ask.get(&format!("/feed/ada?before={end}")).await.is(200);
    assert_eq!((ids(&end), &end["next"]), (Vec::new(), &Value::Null));
    for wrong in ["limit=0", "limit=101", "limit=x", "before=x", "archived=perhaps"] {
        ask.get(&format!("/feed/ada?{wrong}")).await.refused(422);
    }
    assert_eq!(ids(&ask.get("/feed/nobody").await.is(200)), Vec::<i64>::new());
}

#[tokio::test]
async fn what_is_marked_counts_no_more() {
    let served = five().await;
    let ask = served.ask();
    let all = ids(&ask.get("/feed/ada").await.is(200));
    let mark = |mark: Value| {
        let ask = ask.clone();
        async move { ask.post("/feed/ada/marks", &mark).await }
    };
    let seen = mark(json!({ "mark": "seen", "up_to": all[0] })).await.is(200);
    assert_eq!(seen, json!({ "changed": 5, "unread": 5 }));
    let read = mark(json!({ "mark": "read", "id": all[1] })).await.is(200);
    assert_eq!(read, json!({ "changed": 1, "unread": 4 }));
    let again = mark(json!({ "mark": "read", "id": all[1] })).await.is(200);
    assert_eq!(again["changed"], 0);
    let archived = mark(json!({ "mark": "archived", "id": all[2] })).await.is(200);
    assert_eq!(archived["unread"], 3);
    assert_eq!(ids(&ask.get("/feed/ada").await.is(200)).len(), 4);
    assert_eq!(ids(&ask.get("/feed/ada?archived=true").await.is(200)), all);
    for wrong in [
        json!({ "mark": "read" }),
        json!({ "mark": "read", "id": 1, "up_to": 1 }),
        json!({ "mark": "eaten", "id": 1 }),
        json!({ "id": 1 }),
        json!({ "mark": "read", "id": "1" }),
    ] {
        mark(wrong).await.refused(422);
    }
    // Nobody marks what is another's.
    let others = ids(&ask.get("/feed/ben").await.is(200));
    let read = mark(json!({ "mark": "read", "id": others[0] })).await.is(200);
    assert_eq!(read["changed"], 0);
    let unread = ask.get("/feed/ben/unread").await.is(200);
    assert_eq!(unread, json!({ "unread": 1 }));
}

#[tokio::test]
async fn preferences_are_added_to_and_replaced() {
    let served = with_people(Options::default(), &["ada"]).await;
    let ask = served.ask();
    let path = "/recipients/ada/preferences";
    assert_eq!(ask.get(path).await.is(200), json!({ "preferences": [] }));
    let said = json!({ "preferences": [{ "channel": "email", "on": false }, { "category": "social", "on": false }] });
    ask.put(path, &said).await.is(200);
    let more = json!({ "preferences": [{ "channel": "email", "on": true }] });
    let now = ask.put(path, &more).await.is(200);
    let now = now["preferences"].as_array().unwrap().clone();
    assert_eq!(now.len(), 2);
    assert!(
        now.contains(&json!({ "channel": "email", "category": null, "on": true })),
        "{now:?}"
    );
    assert!(
        now.contains(&json!({ "channel": null, "category": "social", "on": false })),
        "{now:?}"
    );
    ask.put("/recipients/nobody/preferences", &said)
        .await
        .refused(404);
    ask.get("/recipients/nobody/preferences").await.refused(404);
    let unknown = json!({ "preferences": [{ "channel": "pigeon", "on": false }] });
    ask.put(path, &unknown).await.refused(422);
    ask.put(path, &json!({ "preferences": [{ "category": "", "on": false }] }))
        .await
        .refused(422);
    let many = vec![json!({ "on": true }); 101];
    ask.put(path, &json!({ "preferences": many })).await.refused(422);
}
