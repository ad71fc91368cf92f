//! A board in a file, and a server on it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_core::{Schema, Timestamp};
use postrider_notify::http::{Api, Demo, DemoUser, Options, Sample};
use postrider_notify::{
    Audience, Board, Channel, Digest, Occasion, People, SqliteBoard, To, Workflow, Workflows,
};
use postrider_sqlite::{Inbox, Outbox, SqliteEffects, SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::ask::Ask;

/// A board, and a server that answers for it until this is dropped.
pub(crate) struct Served {
    pub(crate) board: Arc<dyn Board>,
    pub(crate) api: Api,
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<std::io::Result<()>>,
    /// How often a call said that it stored something.
    pub(crate) bell: Arc<AtomicUsize>,
    folder: TempDir,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Served {
    pub(crate) fn ask(&self) -> Ask {
        Ask::new(self.address)
    }

    /// Runs statements on the file.
    pub(crate) fn run(&self, sql: &str) {
        let connection = rusqlite::Connection::open(self.folder.path().join("notify.db")).unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection.execute_batch(sql).unwrap();
    }

    /// Something happens that no call over HTTP told of: as when another process writes.
    pub(crate) async fn happens(&self, event_id: &str, user: &str) {
        let occasion = Occasion {
            event_id: event_id.to_owned(),
            event_type: "OrderShipped".to_owned(),
            audience: "CUSTOMER".to_owned(),
            aggregate_id: "order-1".to_owned(),
            to: To::User(user.to_owned()),
            at: Timestamp::now(),
            payload: json!({ "order": event_id })
                .as_object()
                .cloned()
                .unwrap_or_default(),
        };
        let accepted = self.board.accept(occasion).await.unwrap();
        assert_eq!(accepted.stored, 1);
    }
}

/// On loopback, with nobody in the board.
pub(crate) async fn served(options: Options) -> Served {
    served_at("127.0.0.1:0", options).await
}

/// The same with some people.
pub(crate) async fn with_people(options: Options, people: &[&str]) -> Served {
    let served = served(options).await;
    for id in people {
        let recipient = postrider_notify::Recipient {
            id: (*id).to_owned(),
            name: format!("Name of {id}"),
            ..postrider_notify::Recipient::default()
        };
        served.board.put(&recipient).await.unwrap();
    }
    served
}

pub(crate) async fn served_at(address: &str, options: Options) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let board = Arc::new(board(&folder).await);
    serve((address, options), board, folder).await
}

/// On loopback, with people who are kept elsewhere.
pub(crate) async fn served_with(options: Options, people: impl People + 'static) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let board = board(&folder).await.with_directory(Arc::new(people));
    serve(("127.0.0.1:0", options), Arc::new(board), folder).await
}

async fn serve((address, options): (&str, Options), board: Arc<dyn Board>, folder: TempDir) -> Served {
    let bell = Arc::new(AtomicUsize::new(0));
    let ring = bell.clone();
    let api = Api::new(board.clone(), options).on_stored(move || {
        ring.fetch_add(1, Ordering::SeqCst);
    });
    let listener = TcpListener::bind(address).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let stop = CancellationToken::new();
    let task = tokio::spawn(api.clone().serve(listener, stop.clone()));
    Served {
        board,
        api,
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        stop,
        task,
        bell,
        folder,
    }
}

pub(crate) async fn board(folder: &TempDir) -> SqliteBoard {
    let path = folder.path().join("notify.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    store.up().await.unwrap();
    let effects = SqliteEffects::open(&path, SqliteOptions::default(), Inbox::default()).unwrap();
    effects.migrate().await.unwrap();
    let board = SqliteBoard::new(effects, Outbox::default(), Arc::new(workflows()));
    board.migrate().await.unwrap();
    board
}

fn workflows() -> Workflows {
    let audience = Audience {
        name: "CUSTOMER".to_owned(),
        view: "customer_notification".to_owned(),
    };
    let shipped = workflow(
        "shipped",
        "OrderShipped",
        "orders",
        &[Channel::InApp, Channel::Email],
    );
    let followed = Workflow {
        resource: Some("{{ payload.order }}".to_owned()),
        ..workflow("followed", "UserFollowed", "social", &[Channel::InApp])
    };
    let liked = Workflow {
        digest: Some(Digest {
            window: Duration::from_secs(3_600),
        }),
        ..workflow("liked", "PostLiked", "social", &[Channel::InApp])
    };
    Workflows::new(vec![audience], vec![shipped, followed, liked]).unwrap()
}

fn workflow(name: &str, event_type: &str, category: &str, channels: &[Channel]) -> Workflow {
    let words = BTreeMap::from([
        ("title".to_owned(), "About {{ payload.order }}".to_owned()),
        (
            "body".to_owned(),
            format!("{event_type} of {{{{ payload.order }}}}"),
        ),
    ]);
    let templates = channels
        .iter()
        .map(|channel| ((*channel, "en".to_owned()), words.clone()));
    Workflow {
        name: name.to_owned(),
        audiences: Vec::new(),
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

/// The body of a notification of one person.
pub(crate) fn shipped(user: &str, order: &str) -> Value {
    json!({
        "event_type": "OrderShipped", "audience": "CUSTOMER", "to": { "user": user }, "payload": { "order": order },
    })
}

pub(crate) fn demo() -> Demo {
    let sample = Sample {
        label: "An order is shipped".to_owned(),
        event_type: "OrderShipped".to_owned(),
        audience: "CUSTOMER".to_owned(),
        payload: json!({ "order": "demo" })
            .as_object()
            .cloned()
            .unwrap_or_default(),
    };
    let user = |id: &str| DemoUser {
        id: id.to_owned(),
        name: id.to_uppercase(),
    };
    Demo::default()
        .users(vec![user("ada"), user("ben")])
        .categories(vec!["orders".to_owned(), "social".to_owned()])
        .samples(vec![sample])
}
