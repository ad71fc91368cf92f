//! The page of the demo with some people and some notifications: `cargo run -p postrider-notify --example feed_page`,
//! then open the url that it prints.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use postrider_core::{Schema, Timestamp};
use postrider_notify::http::{Api, Demo, DemoUser, Options, Sample};
use postrider_notify::{Audience, Board, Channel, Occasion, Recipient, SqliteBoard, To, Workflow, Workflows};
use postrider_sqlite::{Inbox, Outbox, SqliteEffects, SqliteOptions, SqliteStore};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// What can happen: the type, the category, the title, the text, the label, and the fields of a sample.
type Kind = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Value,
);

fn kinds() -> [Kind; 4] {
    [
        (
            "OrderShipped",
            "orders",
            "Order {{ payload.order }} is on its way",
            "It left {{ payload.city }} this morning and arrives tomorrow before noon.",
            "An order is shipped",
            json!({ "order": "4711", "city": "Vienna" }),
        ),
        (
            "UserFollowed",
            "social",
            "{{ payload.name }} follows you",
            "Say hello, {{ recipient.name }}.",
            "Somebody follows you",
            json!({ "name": "Grace Hopper" }),
        ),
        (
            "CommentCreated",
            "social",
            "{{ payload.name }} wrote a comment",
            "“{{ payload.text }}”",
            "A comment that looks like markup",
            json!({ "name": "Robert <b>Tables</b>", "text": "<script>alert(1)</script> stays text" }),
        ),
        (
            "InvoiceReady",
            "billing",
            "Your invoice of {{ payload.month }}",
            "{{ payload.amount }} EUR, due in two weeks.",
            "An invoice is ready",
            json!({ "month": "October", "amount": "42.00" }),
        ),
    ]
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("notify.db");
    SqliteStore::open(&path, SqliteOptions::default())?.up().await?;
    let effects = SqliteEffects::open(&path, SqliteOptions::default(), Inbox::default())?;
    effects.migrate().await?;
    let board = SqliteBoard::new(effects, Outbox::default(), Arc::new(workflows()?));
    board.migrate().await?;
    let board: Arc<dyn Board> = Arc::new(board);
    let people = [
        ("ada", "Ada Lovelace"),
        ("alan", "Alan Turing"),
        ("mary", "Mary Somerville"),
    ];
    for (id, name) in people {
        let (id, name) = (id.to_owned(), name.to_owned());
        let recipient = Recipient {
            id,
            name,
            ..Recipient::default()
        };
        board.put(&recipient).await?;
        for number in [3, 2, 1, 0] {
            let (event_type, _, _, _, _, payload) = &kinds()[number];
            let occasion = Occasion {
                event_id: format!("{}-{number}", recipient.id),
                event_type: (*event_type).to_owned(),
                audience: "CUSTOMER".to_owned(),
                aggregate_id: recipient.id.clone(),
                to: To::User(recipient.id.clone()),
                at: Timestamp::now(),
                payload: fields(payload),
            };
            board.accept(occasion).await?;
        }
    }
    let api = Api::new(
        board,
        Options::default()
            .secret("only for this example")
            .demo(demo(&people)),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:7788").await?;
    println!("http://{}/demo", listener.local_addr()?);
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        stopping.cancel();
    });
    Ok(api.serve(listener, stop).await?)
}

fn workflows() -> Result<Workflows, Box<dyn Error>> {
    let audience = Audience {
        name: "CUSTOMER".to_owned(),
        view: "customer_notification".to_owned(),
    };
    let workflows = kinds().map(|(event_type, category, title, body, _, _)| Workflow {
        name: event_type.to_owned(),
        audiences: Vec::new(),
        event_types: vec![event_type.to_owned()],
        category: category.to_owned(),
        channels: vec![Channel::InApp],
        resource: None,
        period: None,
        digest: None,
        locale: "en".to_owned(),
        templates: BTreeMap::from([(
            (Channel::InApp, "en".to_owned()),
            BTreeMap::from([
                ("title".to_owned(), title.to_owned()),
                ("body".to_owned(), body.to_owned()),
            ]),
        )]),
    });
    Ok(Workflows::new(vec![audience], workflows.into())?)
}

fn demo(people: &[(&str, &str)]) -> Demo {
    let users = people.iter().map(|(id, name)| DemoUser {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
    });
    let samples = kinds().map(|(event_type, _, _, _, label, payload)| Sample {
        label: label.to_owned(),
        event_type: event_type.to_owned(),
        audience: "CUSTOMER".to_owned(),
        payload: fields(&payload),
    });
    let categories = ["orders", "social", "billing"].map(str::to_owned);
    Demo::default()
        .users(users.collect())
        .categories(categories.into())
        .samples(samples.into())
}

fn fields(payload: &Value) -> Map<String, Value> {
    payload.as_object().cloned().unwrap_or_default()
}
