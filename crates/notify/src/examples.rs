//! What the tests of this crate tell people about.

use std::collections::BTreeMap;

use postrider_core::Timestamp;
use serde_json::{Value, json};

use crate::{Audience, Channel, Occasion, To, Workflow};

pub(crate) fn audience() -> Audience {
    Audience {
        name: "CUSTOMER".to_owned(),
        view: "customer_notification".to_owned(),
    }
}

pub(crate) fn words(title: &str, body: &str) -> BTreeMap<String, String> {
    let part = |name: &str, source: &str| (name.to_owned(), source.to_owned());
    BTreeMap::from([part("title", title), part("body", body)])
}

/// Somebody follows somebody: in app and by mail, in English and German.
pub(crate) fn followed() -> Workflow {
    let mut mail = words(
        "{{ payload.who }} follows you",
        "Dear {{ recipient.name }}, {{ payload.who }} follows you.",
    );
    mail.insert(
        "html".to_owned(),
        "<p>{{ payload.who }} follows you.</p>".to_owned(),
    );
    Workflow {
        name: "followed".to_owned(),
        audiences: vec!["CUSTOMER".to_owned()],
        event_types: vec!["UserFollowed".to_owned()],
        category: "social".to_owned(),
        channels: vec![Channel::InApp, Channel::Email],
        resource: None,
        period: None,
        digest: None,
        locale: "en".to_owned(),
        templates: BTreeMap::from([
            (
                (Channel::InApp, "en".to_owned()),
                words("A new follower", "{{ payload.who }} follows you."),
            ),
            (
                (Channel::InApp, "de".to_owned()),
                words("Neu", "{{ payload.who }} folgt dir."),
            ),
            ((Channel::Email, "en".to_owned()), mail),
        ]),
    }
}

pub(crate) fn occasion(id: &str, payload: Value) -> Occasion {
    Occasion {
        event_id: id.to_owned(),
        event_type: "UserFollowed".to_owned(),
        audience: "CUSTOMER".to_owned(),
        aggregate_id: "7".to_owned(),
        to: To::User("ann".to_owned()),
        at: Timestamp(1_800_000_000_000_000),
        payload: match payload {
            Value::Object(payload) => payload,
            _ => [("who".to_owned(), json!("Bob"))].into_iter().collect(),
        },
    }
}
