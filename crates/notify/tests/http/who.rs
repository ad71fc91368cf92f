//! Who may ask what.

use postrider_core::Secret;
use postrider_notify::http::{Options, sign};
use serde_json::{Value, json};

use crate::ask::{Answer, Ask};
use crate::support::{demo, served, served_at, shipped, with_people};

const TOKEN: &str = "correct-horse";
const SECRET: &str = "battery-staple";

fn both() -> Options {
    Options::default().token(TOKEN).secret(SECRET)
}

/// Every call of services, as something that would work.
async fn of_services(ask: &Ask) -> Vec<(&'static str, Answer)> {
    let ask = ask.key("k");
    let (one, ids) = (json!({}), json!({ "ids": ["ada"] }));
    vec![
        ("put recipient", ask.put("/recipients/ada", &one).await),
        ("get recipient", ask.get("/recipients/ada").await),
        ("send", ask.post("/notifications", &shipped("ada", "A-1")).await),
        ("of event", ask.get("/notifications?event_id=x").await),
        ("one", ask.get("/notifications/1").await),
        ("subscribe many", ask.post("/topics/t/subscribers", &ids).await),
        ("subscribe", ask.put("/topics/t/subscribers/ada", &one).await),
        ("unsubscribe", ask.delete("/topics/t/subscribers/ada").await),
        ("delete recipient", ask.delete("/recipients/ada").await),
    ]
}

/// Every call of people that ends, as something that would work.
async fn of_people(ask: &Ask, id: &str, query: &str) -> Vec<(&'static str, Answer)> {
    let said = json!({ "preferences": [] });
    let mark = json!({ "mark": "seen", "up_to": 1 });
    let preferences = format!("/recipients/{id}/preferences{query}");
    vec![
        ("feed", ask.get(&format!("/feed/{id}{query}")).await),
        ("unread", ask.get(&format!("/feed/{id}/unread{query}")).await),
        (
            "marks",
            ask.post(&format!("/feed/{id}/marks{query}"), &mark).await,
        ),
        ("get preferences", ask.get(&preferences).await),
        ("put preferences", ask.put(&preferences, &said).await),
    ]
}

/// The same with the live feed, which never answers this way unless it refuses.
async fn refused_people(ask: &Ask, id: &str, query: &str) -> Vec<(&'static str, Answer)> {
    let mut answers = of_people(ask, id, query).await;
    answers.push(("live", ask.get(&format!("/feed/{id}/live{query}")).await));
    answers
}

fn signature(id: &str) -> String {
    sign(&Secret::new(SECRET), id)
}

#[tokio::test]
async fn services_need_the_token() {
    let served = with_people(both(), &["ada"]).await;
    for ask in [
        served.ask(),
        served.ask().token("wrong"),
        served.ask().token(""),
        served.ask().signature(&signature("ada")),
    ] {
        for (call, answer) in of_services(&ask).await {
            assert_eq!(answer.refused(401), "token", "{call}");
            assert!(answer.head.contains("www-authenticate: bearer"), "{call}");
        }
    }
    for (call, answer) in of_services(&served.ask().token(TOKEN)).await {
        assert!(matches!(answer.code, 200..=299), "{call}: {}", answer.body);
    }
}

#[tokio::test]
async fn people_need_their_own_signature() {
    let served = with_people(both(), &["ada", "ben"]).await;
    for ask in [served.ask(), served.ask().token(TOKEN)] {
        for (call, answer) in refused_people(&ask, "ada", "").await {
            assert_eq!(answer.refused(401), "signature", "{call}");
        }
    }
    let ada = signature("ada");
    let upper = ada.to_uppercase();
    for ask in [served.ask().signature(&ada), served.ask().signature(&upper)] {
        for (call, answer) in of_people(&ask, "ada", "").await {
            answer.is(200);
            assert!(!call.is_empty());
        }
    }
    for (call, answer) in of_people(&served.ask(), "ada", &format!("?signature={ada}")).await {
        assert_eq!(answer.code, 200, "{call}: {}", answer.body);
    }
}

#[tokio::test]
async fn the_signature_of_another_opens_nothing_and_tells_nothing() {
    let served = with_people(both(), &["ada", "ben"]).await;
    served.happens("e1", "ada").await;
    let ben = signature("ben");
    let mut said: Vec<Value> = Vec::new();
    let wrong = [ben.as_str(), "", "00", "\u{1f}nonsense", &ben[..63]];
    for wrong in wrong.map(|text| text.replace('\u{1f}', "")) {
        let ask = served.ask().signature(&wrong);
        for who in ["ada", "nobody"] {
            for (call, answer) in refused_people(&ask, who, "").await {
                assert_eq!(answer.refused(403), "signature", "{call} with {wrong:?}");
                said.push(answer.json());
            }
        }
    }
    for (_, answer) in refused_people(&served.ask(), "ada", &format!("?signature={ben}")).await {
        answer.refused(403);
        said.push(answer.json());
    }
    said.dedup();
    assert_eq!(said.len(), 1, "the same words whoever is asked for: {said:?}");
    // A right one in the query does not mend a wrong one in the header.
    let ada = signature("ada");
    let answer = served
        .ask()
        .signature(&ben)
        .get(&format!("/feed/ada?signature={ada}"))
        .await;
    answer.refused(403);
    let unread = served.ask().signature(&ada).get("/feed/ada/unread").await.is(200);
    assert_eq!(unread, json!({ "unread": 1 }), "and nothing was marked");
}

#[tokio::test]
async fn on_loopback_what_is_not_set_is_not_asked_for() {
    let served = with_people(Options::default(), &["ada"]).await;
    for (call, answer) in of_people(&served.ask(), "ada", "").await {
        assert_eq!(answer.code, 200, "{call}");
    }
    for (call, answer) in of_services(&served.ask()).await {
        assert!(matches!(answer.code, 200..=299), "{call}: {}", answer.body);
    }
    // A signature that cannot be checked is a wrong one, here too.
    for (call, answer) in refused_people(&served.ask().signature(&signature("ada")), "ada", "").await {
        assert_eq!(answer.refused(403), "signature", "{call}");
    }
}

#[tokio::test]
async fn beyond_loopback_everything_is_asked_for() {
    let everywhere = "0.0.0.0:0";
    let served = served_at(everywhere, Options::default().token(TOKEN)).await;
    for (call, answer) in of_services(&served.ask()).await {
        assert_eq!(answer.refused(401), "token", "{call}");
    }
    for ask in [
        served.ask(),
        served.ask().token(TOKEN),
        served.ask().signature(&signature("ada")),
    ] {
        for (call, answer) in refused_people(&ask, "ada", "").await {
            assert_eq!(answer.refused(403), "signature", "{call}");
        }
    }
    let mut open = served_at(everywhere, Options::default()).await;
    let error = (&mut open.task).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("no token is set"), "{error}");
    let mut shown = served_at(everywhere, both().demo(demo())).await;
    let error = (&mut shown.task).await.unwrap().unwrap_err();
    assert!(
        error.to_string().contains("the demo shows everybody's feed"),
        "{error}"
    );
}

#[tokio::test]
async fn a_name_that_somebody_else_pointed_at_us_is_refused() {
    let open = served(Options::default()).await;
    let half = served(Options::default().token(TOKEN)).await;
    let shut = served(both()).await;
    let shown = served(both().demo(demo())).await;
    for (served, refused) in [(&open, true), (&half, true), (&shut, false), (&shown, true)] {
        let ask = Ask {
            host: "evil.example:7788",
            ..served.ask().token(TOKEN).signature(&signature("ada"))
        };
        for path in ["/feed/ada", "/recipients/ada", "/demo", "/demo/state"] {
            let answer = ask.get(path).await;
            assert_eq!(
                answer.code == 403 && answer.refused(403) == "host",
                refused,
                "{path}"
            );
        }
    }
}
