//! Who is there, what they subscribed to, and what they want to hear of.

use postrider_core::{BoxFuture, StoreError, StoreErrorKind};
use serde::{Deserialize, Serialize};

use crate::occasion::unfit_name;
use crate::{Channel, To};

/// A person, and how to reach them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipient {
    /// Their id.
    #[serde(default)]
    pub id: String,
    /// How they are called; may be empty.
    #[serde(default)]
    pub name: String,
    /// Their language, such as `de-AT`; None: the workflow's default.
    #[serde(default)]
    pub locale: Option<String>,
    /// Where mail goes.
    #[serde(default)]
    pub email: Option<String>,
    /// Which url is told of a push.
    #[serde(default)]
    pub push_url: Option<String>,
}

/// One thing that a person said about what they want.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preference {
    /// By this channel only; None: by any.
    #[serde(default)]
    pub channel: Option<Channel>,
    /// Of this category only; None: of any.
    #[serde(default)]
    pub category: Option<String>,
    /// Wanted or not.
    pub on: bool,
}

/// All that a person said about what they want.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Preferences(pub Vec<Preference>);

impl Preferences {
    /// Whether something of this category may go by this channel. What was said most specifically counts: of a channel
    /// and a category together, then of the category, then of the channel. What nothing was said of is wanted.
    pub fn allow(&self, channel: Channel, category: &str) -> bool {
        let rank = |one: &Preference| {
            let fits = one.channel.is_none_or(|of| of == channel)
                && one.category.as_deref().is_none_or(|of| of == category);
            fits.then_some((one.category.is_some(), one.channel.is_some()))
        };
        let said = self.0.iter().filter_map(|one| Some((rank(one)?, one.on)));
        said.max_by_key(|(rank, _)| *rank).is_none_or(|(_, on)| on)
    }
}

/// A person as a fan-out sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Who.
    pub recipient: Recipient,
    /// What they want.
    pub preferences: Preferences,
}

/// Who is there. Each board keeps it in tables of its own, and reads members in the transaction that stores for them. A
/// team that has its users elsewhere copies them there (`PUT /recipients/{id}`), or gives the board a
/// [`crate::People`]: then it is asked who is there, and only what people want is kept here.
pub trait Directory: Send + Sync {
    /// Whether people are kept in tables of the board. Where they are not, nobody is put, removed or subscribed here.
    fn keeps_people(&self) -> bool {
        true
    }

    /// The next members that are meant, in the order of their ids as bytes, behind the one named, at most so many. A
    /// person who is not known is nobody.
    fn members<'a>(
        &'a self,
        to: &'a To,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Member>, StoreError>>;

    /// One person; None when not known.
    fn recipient<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Member>, StoreError>>;

    /// Adds or replaces a person. Subscriptions and preferences stay.
    fn put<'a>(&'a self, recipient: &'a Recipient) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Removes a person with subscriptions and preferences; false when not known. Notifications stay until the
    /// retention. Where people are kept elsewhere, it removes what is known of them here: their preferences.
    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Subscribes people to a topic; those who are subscribed stay so. Answers how many are new.
    fn subscribe<'a>(&'a self, topic: &'a str, ids: &'a [String]) -> BoxFuture<'a, Result<u64, StoreError>>;

    /// The reverse.
    fn unsubscribe<'a>(&'a self, topic: &'a str, ids: &'a [String])
    -> BoxFuture<'a, Result<u64, StoreError>>;

    /// What a person is subscribed to, in order.
    fn topics<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;

    /// Replaces what a person said about this channel and category. False when the person is not known.
    fn prefer<'a>(
        &'a self,
        id: &'a str,
        preference: &'a Preference,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;
}

/// Refuses texts that not every database stores: a recipient can be moved from one to another.
pub(crate) fn refuse_unfit<'a>(mut texts: impl Iterator<Item = &'a str>) -> Result<(), StoreError> {
    match texts.any(|text| text.contains('\0')) {
        true => Err(unfit(
            "a text has the character U+0000, which databases do not store",
        )),
        false => Ok(()),
    }
}

/// Refuses the id of a recipient that no event could carry.
pub(crate) fn refuse_unfit_id(id: &str) -> Result<(), StoreError> {
    match unfit_name(id) {
        Some(reason) => Err(unfit(format!("the id of a recipient {reason}"))),
        None => Ok(()),
    }
}

fn unfit(text: impl Into<Box<str>>) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(channel: Option<Channel>, category: Option<&str>, on: bool) -> Preference {
        Preference {
            channel,
            category: category.map(str::to_owned),
            on,
        }
    }

    #[test]
    fn what_was_said_most_specifically_counts() {
        let nothing = Preferences::default();
        assert!(nothing.allow(Channel::Email, "orders"));
        let said = Preferences(vec![
            said(Some(Channel::Email), None, false),
            said(None, Some("social"), false),
            said(Some(Channel::Push), Some("social"), true),
        ]);
        assert!(!said.allow(Channel::Email, "orders"));
        assert!(said.allow(Channel::Push, "orders"));
        assert!(!said.allow(Channel::InApp, "social"));
        assert!(said.allow(Channel::Push, "social"));
    }
}
