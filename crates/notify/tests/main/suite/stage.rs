//! What the cases are written with: people, workflows, events, and what is found afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::Timestamp;
use postrider_notify::{
    Accepted, Audience, Board, BoardError, Channel, Digest, Occasion, Preference, Recipient, To, Workflow,
    Workflows,
};
use serde_json::{Value, json};

use super::Bench;

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
/// A time at the beginning of an hour.
pub(crate) const NOON: Timestamp = Timestamp(1_800_000_000_000_000);

/// The workflows of the cases:
///
/// | event | category | channels | about | |
/// |---|---|---|---|---|
/// | `UserFollowed` | social | in app, email | the follower, for an hour | |
/// | `CommentCreated` | social | in app, push | the comment, for ever | |
/// | `PostLiked` | social | in app | | a digest of an hour |
/// | `MenuChanged` | menu | in app, email | | |
/// | `InvoiceSent` | money | email | | |
/// | `LetterSent` | money | email, with html | | as long as its text |
pub(crate) fn workflows() -> Arc<Workflows> {
    use Channel::{Email, InApp, Push};
    let followed = Workflow {
        resource: Some("{{ payload.followerId }}".to_owned()),
        period: Some(HOUR),
        ..workflow(
            "UserFollowed",
            "social",
            &[InApp, Email],
            "{{ payload.who }} follows you",
        )
    };
    let commented = Workflow {
        resource: Some("{{ payload.commentId }}".to_owned()),
        ..workflow(
            "CommentCreated",
            "social",
            &[InApp, Push],
            "A comment on {{ payload.postId }}",
        )
    };
    let mut liked = Workflow {
        digest: Some(Digest { window: HOUR }),
        ..workflow("PostLiked", "social", &[InApp], "{{ count }} likes")
    };
    say(&mut liked, "body", "{{ events | length }} shown");
    let menu = workflow("MenuChanged", "menu", &[InApp, Email], "{{ payload.dish }}");
    let invoice = workflow("InvoiceSent", "money", &[Email], "An invoice");
    let mut letter = workflow("LetterSent", "money", &[Email], "A letter");
    say(
        &mut letter,
        "html",
        "<p>{{ recipient.name }}: {{ payload.text }}</p>",
    );
    let audience = |name: &str| Audience {
        name: name.to_owned(),
        view: format!("{}_notification", name.to_lowercase()),
    };
    let audiences = vec![audience("CUSTOMER"), audience("RESTAURANT")];
    let workflows = vec![followed, commented, liked, menu, invoice, letter];
    Arc::new(Workflows::new(audiences, workflows).expect("they are right"))
}

fn workflow(event_type: &str, category: &str, channels: &[Channel], title: &str) -> Workflow {
    let part = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let words = BTreeMap::from([
        part("title", title),
        part("body", "{{ recipient.name }}: {{ event.type }}"),
    ]);
    let templates = channels
        .iter()
        .map(|channel| ((*channel, "en".to_owned()), words.clone()));
    Workflow {
        name: event_type.to_lowercase(),
        audiences: vec![],
        event_types: vec![event_type.to_owned()],
        category: category.to_owned(),
        channels: channels.to_vec(),
        resource: None,
        period: None,
        digest: None,
        locale: "en".to_owned(),
        templates: templates.collect(),
    }
}

/// Replaces one part of all templates.
fn say(workflow: &mut Workflow, part: &str, text: &str) {
    for words in workflow.templates.values_mut() {
        words.insert(part.to_owned(), text.to_owned());
    }
}

/// An event for one person.
pub(crate) fn event(id: &str, event_type: &str, user: &str, payload: Value) -> Occasion {
    let Value::Object(payload) = payload else {
        panic!("a payload is an object");
    };
    Occasion {
        event_id: id.to_owned(),
        event_type: event_type.to_owned(),
        audience: "CUSTOMER".to_owned(),
        aggregate_id: "7".to_owned(),
        to: To::User(user.to_owned()),
        at: NOON,
        payload,
    }
}

pub(crate) fn followed(id: &str, user: &str, follower: &str) -> Occasion {
    event(
        id,
        "UserFollowed",
        user,
        json!({"followerId": follower, "who": "Bob"}),
    )
}

pub(crate) fn liked(id: &str, user: &str) -> Occasion {
    event(id, "PostLiked", user, json!({"postId": 1}))
}

/// An event for everybody of a topic.
pub(crate) fn menu(id: &str, topic: &str) -> Occasion {
    for_all(topic, event(id, "MenuChanged", "", json!({"dish": "Soup"})))
}

/// The same event, for everybody of a topic.
pub(crate) fn for_all(topic: &str, occasion: Occasion) -> Occasion {
    Occasion {
        to: To::Topic(topic.to_owned()),
        ..occasion
    }
}

/// A board that is migrated, on a fresh database.
pub(crate) async fn board(bench: &dyn Bench) -> Arc<dyn Board> {
    let board = bench.open(workflows()).await;
    board.migrate().await.expect("migrated");
    board
}

/// The same with these people, who can be reached by every channel.
pub(crate) async fn with(bench: &dyn Bench, people: &[&str]) -> Arc<dyn Board> {
    let board = board(bench).await;
    for id in people {
        board.put(&person(id)).await.expect("put");
    }
    board
}

pub(crate) fn person(id: &str) -> Recipient {
    Recipient {
        id: id.to_owned(),
        name: format!("Name of {id}"),
        locale: None,
        email: Some(format!("{id}@example.com")),
        push_url: Some(format!("https://push.example.com/{id}")),
    }
}

/// So many people, in the order of their ids, who are all subscribed to the topic.
pub(crate) async fn crowd(bench: &dyn Bench, topic: &str, size: usize) -> Arc<dyn Board> {
    let board = board(bench).await;
    let ids: Vec<String> = (0..size).map(|n| format!("u{n:05}")).collect();
    let rows: Vec<String> = ids
        .iter()
        .map(|id| format!("('{id}', 'Name of {id}', '{id}@example.com')"))
        .collect();
    for rows in rows.chunks(500) {
        let sql = format!(
            "INSERT INTO notification_recipient (id, name, email) VALUES {}",
            rows.join(", ")
        );
        bench.run(&sql).await;
    }
    for ids in ids.chunks(1_000) {
        board.subscribe(topic, ids).await.expect("subscribed");
    }
    board
}

/// Two topics of so many people each: `soup`, and behind those `salad`.
pub(crate) async fn two_crowds(bench: &dyn Bench, size: usize) -> Arc<dyn Board> {
    let board = crowd(bench, "all", 2 * size).await;
    let ids: Vec<String> = (0..2 * size).map(|n| format!("u{n:05}")).collect();
    for (topic, ids) in ["soup", "salad"].into_iter().zip(ids.chunks(size)) {
        board.subscribe(topic, ids).await.expect("subscribed");
    }
    board
}

pub(crate) fn says(channel: Option<Channel>, category: Option<&str>, on: bool) -> Preference {
    Preference {
        channel,
        category: category.map(str::to_owned),
        on,
    }
}

pub(crate) async fn accept(board: &Arc<dyn Board>, occasion: Occasion) -> Accepted {
    board.accept(occasion).await.expect("accepted")
}

/// How many rows there are of everything that a board stores for an occasion: notifications, deliveries, fan-outs,
/// items of digests, and events in the outbox.
pub(crate) async fn rows(bench: &dyn Bench) -> [i64; 5] {
    let tables = [
        "notification",
        "notification_delivery",
        "notification_fanout",
        "notification_digest_item",
        "outbox",
    ];
    let mut counts = [0; 5];
    for (count, table) in counts.iter_mut().zip(tables) {
        *count = bench.number(&format!("SELECT count(*) FROM {table}")).await;
    }
    counts
}

/// It failed because of the database, and not as a duplicate or an occasion that never works.
pub(crate) fn is_store_error<T: std::fmt::Debug>(result: Result<T, BoardError>) {
    assert!(matches!(result, Err(BoardError::Store(_))), "{result:?}");
}

/// It cannot be told as it is; answers why.
pub(crate) fn is_refused<T: std::fmt::Debug>(result: Result<T, BoardError>) -> String {
    match result {
        Err(BoardError::Occasion(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

/// Steps until there is nothing left; answers how many chunks there were.
pub(crate) async fn finish(board: &Arc<dyn Board>) -> usize {
    let mut chunks = 0;
    while board.step().await.expect("a step").is_some() {
        chunks += 1;
        assert!(chunks < 1_000, "it does not end");
    }
    chunks
}
