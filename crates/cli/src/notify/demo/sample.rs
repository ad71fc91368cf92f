//! Who is in the demo, and what can happen to them.

use std::collections::BTreeMap;

use postrider_notify::http::{Demo, DemoUser, Sample, Send};
use postrider_notify::{Audience, Channel, Workflow, WorkflowError, Workflows};
use serde_json::{Map, Value, json};

/// The people, by audience.
pub const AUDIENCES: [(&str, &[(&str, &str)]); 2] = [
    (
        "CUSTOMER",
        &[
            ("ada", "Ada Lovelace"),
            ("alan", "Alan Turing"),
            ("emmy", "Emmy Noether"),
            ("grace", "Grace Hopper"),
            ("mary", "Mary Somerville"),
            ("srinivasa", "Srinivasa Ramanujan"),
        ],
    ),
    (
        "RESTAURANT",
        &[("trattoria", "Trattoria Bella"), ("teahouse", "The Teahouse")],
    ),
];

/// Something that can happen.
pub struct Kind {
    pub event_type: &'static str,
    pub audience: &'static str,
    pub category: &'static str,
    /// What it is about; two of one type about the same are one notification.
    pub resource: Option<&'static str>,
    /// Whether everybody of the audience is told.
    pub broadcast: bool,
    title: &'static str,
    body: &'static str,
    label: &'static str,
}

pub const KINDS: [Kind; 5] = [
    Kind {
        event_type: "OrderShipped",
        audience: "CUSTOMER",
        category: "orders",
        resource: None,
        broadcast: false,
        title: "Order {{ payload.order }} is on its way",
        body: "It left {{ payload.city }} and arrives before noon, {{ recipient.name }}.",
        label: "An order is shipped",
    },
    Kind {
        event_type: "UserFollowed",
        audience: "CUSTOMER",
        category: "social",
        resource: Some("{{ payload.follower }}"),
        broadcast: false,
        title: "{{ payload.follower }} follows you",
        body: "Told once, however often it happens.",
        label: "Somebody follows you (again)",
    },
    Kind {
        event_type: "CommentCreated",
        audience: "CUSTOMER",
        category: "social",
        resource: None,
        broadcast: false,
        title: "{{ payload.follower }} wrote a comment",
        body: "“{{ payload.text }}”",
        label: "A comment that looks like markup",
    },
    Kind {
        event_type: "OrderPlaced",
        audience: "RESTAURANT",
        category: "orders",
        resource: None,
        broadcast: false,
        title: "A new order, number {{ payload.order }}",
        body: "From {{ payload.city }}.",
        label: "An order is placed",
    },
    Kind {
        event_type: "MenuChanged",
        audience: "CUSTOMER",
        category: "news",
        resource: None,
        broadcast: true,
        title: "There is something new on the menu",
        body: "Dish number {{ payload.order }}, for everybody.",
        label: "",
    },
];

pub fn workflows() -> Result<Workflows, WorkflowError> {
    let audiences = AUDIENCES.map(|(name, _)| Audience {
        name: name.to_owned(),
        view: format!("{}_notification", name.to_lowercase()),
    });
    let workflows = KINDS.iter().map(|kind| Workflow {
        name: kind.event_type.to_owned(),
        audiences: vec![kind.audience.to_owned()],
        event_types: vec![kind.event_type.to_owned()],
        category: kind.category.to_owned(),
        channels: vec![Channel::InApp],
        resource: kind.resource.map(str::to_owned),
        period: None,
        digest: None,
        locale: "en".to_owned(),
        templates: BTreeMap::from([(
            (Channel::InApp, "en".to_owned()),
            BTreeMap::from([
                ("title".to_owned(), kind.title.to_owned()),
                ("body".to_owned(), kind.body.to_owned()),
            ]),
        )]),
    });
    Workflows::new(audiences.into(), workflows.collect())
}

/// The fields of an event.
pub fn payload(order: u64, follower: &str) -> Map<String, Value> {
    let fields = json!({
        "order": order.to_string(),
        "city": "Vienna",
        "follower": follower,
        "text": "<script>alert(1)</script> stays text",
    });
    fields.as_object().cloned().unwrap_or_default()
}

/// The page: everybody, and what its buttons do.
pub fn page(send: Send) -> Demo {
    let people = AUDIENCES.iter().flat_map(|(_, people)| people.iter());
    let users = people.map(|(id, name)| DemoUser {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
    });
    let samples = KINDS.iter().filter(|kind| !kind.broadcast).map(|kind| Sample {
        label: kind.label.to_owned(),
        event_type: kind.event_type.to_owned(),
        audience: kind.audience.to_owned(),
        payload: payload(4711, "Niels Abel"),
    });
    let categories = ["orders", "social", "news"].map(str::to_owned);
    Demo::default()
        .users(users.collect())
        .categories(categories.into())
        .samples(samples.collect())
        .send(send)
}
