//! A directory of your own: people who are kept elsewhere, and are asked for a page at a time.

use std::error::Error;
use std::time::Duration;

use postrider_core::{BoxFuture, StoreError, StoreErrorKind, causes, inert};

use crate::occasion::unfit_name;
use crate::{BoardError, Recipient, To};

/// How long a directory may take for one page. Whoever waits longer is tried again later, and holds up nobody.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// How many pages of ids that cannot be used are passed over at a time.
const PASSED_OVER: usize = 100;

/// What a directory of your own failed with: any error will do. It is logged and shown to operators, so it should name
/// no secrets.
pub type PeopleError = Box<dyn Error + Send + Sync>;

/// A directory of your own, for a team that has its users elsewhere: implement this, and give it to a board with
/// `with_directory`. Preferences, feeds and everything else stay in the tables of the board.
///
/// It is asked outside of any transaction, and never for more than [`crate::CHUNK`] people. Whoever is answered is
/// told, if they want to be: what they want is looked up afterwards, in the transaction that stores. An error is no
/// refusal: nothing is stored for this page, and it is asked for again.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Arc;
/// use postrider_core::{BoxFuture, Schema, Timestamp};
/// use postrider_notify::{
///     Audience, Board, Channel, Feed, Occasion, People, PeopleError, Recipient, SqliteBoard, To, Workflow, Workflows,
/// };
/// use postrider_sqlite::{Inbox, Outbox, SqliteEffects, SqliteOptions, SqliteStore};
///
/// /// Names by id. A real one asks a service, or another database.
/// struct Staff(BTreeMap<String, String>);
///
/// impl People for Staff {
///     fn find<'a>(
///         &'a self,
///         to: &'a To,
///         after: Option<&'a str>,
///         limit: usize,
///     ) -> BoxFuture<'a, Result<Vec<Recipient>, PeopleError>> {
///         Box::pin(async move {
///             let meant = |id: &str| match to {
///                 To::User(one) => id == one,
///                 To::Topic(topic) => topic == "staff" && after.is_none_or(|after| id > after),
///             };
///             let found = self.0.iter().filter(|(id, _)| meant(id)).take(limit);
///             let person = |(id, name): (&String, &String)| Recipient {
///                 id: id.clone(),
///                 name: name.clone(),
///                 ..Recipient::default()
///             };
///             Ok(found.map(person).collect())
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("shop.db");
/// # SqliteStore::open(&path, SqliteOptions::default())?.up().await?;
/// # let effects = SqliteEffects::open(&path, SqliteOptions::default(), Inbox::default())?;
/// # let text = |text: &str| text.to_owned();
/// # let words = BTreeMap::from([(text("title"), text("Lunch")), (text("body"), text("{{ recipient.name }}, come!"))]);
/// # let lunch = Workflow {
/// #     name: text("lunch"), audiences: vec![], event_types: vec![], category: text("food"),
/// #     channels: vec![Channel::InApp], resource: None, period: None, digest: None, locale: text("en"),
/// #     templates: BTreeMap::from([((Channel::InApp, text("en")), words)]),
/// # };
/// # let staff = Audience { name: text("STAFF"), view: text("staff_notification") };
/// # let workflows = Arc::new(Workflows::new(vec![staff], vec![lunch])?);
/// let people = [("ann", "Ann"), ("bob", "Bob")].map(|(id, name)| (id.to_owned(), name.to_owned()));
/// let board = SqliteBoard::new(effects, Outbox::default(), workflows).with_directory(Arc::new(Staff(people.into())));
/// board.migrate().await?;
/// # let lunch = Occasion {
/// #     event_id: text("lunch-1"), event_type: text("LunchReady"), audience: text("STAFF"),
/// #     aggregate_id: text("1"), to: To::audience("STAFF"), at: Timestamp::now(), payload: Default::default(),
/// # };
/// // An event for the whole audience STAFF, whose topic is `staff`.
/// board.accept(lunch).await?;
/// assert_eq!(board.unread("bob").await?, 1);
/// # Ok(())
/// # }
/// ```
pub trait People: Send + Sync {
    /// The next people who are meant, behind the id that is named, at most so many.
    ///
    /// - [`To::User`]: the one with this id, or nobody where they are not known.
    /// - [`To::Topic`]: whoever is to hear of this topic, in the order of their ids **as bytes** (in PostgreSQL `ORDER
    ///   BY id COLLATE "C"`), each once. A page may be shorter than it could be; an empty one is the end. Who comes or
    ///   goes between two pages is told or not, according to where their id stands; nobody is told twice.
    ///
    /// Ids that no event can carry (empty, longer than 255 characters, with control characters) are passed over.
    fn find<'a>(
        &'a self,
        to: &'a To,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Recipient>, PeopleError>>;
}

/// Some people, as a directory named them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    pub(crate) people: Vec<Recipient>,
    /// Whether nobody comes behind them.
    pub(crate) is_last: bool,
}

/// Asks for the next people, and checks that the answer can be gone on from.
pub(crate) async fn page(
    people: &dyn People,
    (to, after, limit): (&To, Option<&str>, usize),
) -> Result<Page, BoardError> {
    match to {
        To::User(id) if after.is_some_and(|after| id.as_str() <= after) => Ok(Page {
            people: Vec::new(),
            is_last: true,
        }),
        To::User(id) => one(people, to, id).await,
        To::Topic(_) => some(people, to, (after, limit)).await,
    }
}

async fn one(people: &dyn People, to: &To, id: &str) -> Result<Page, BoardError> {
    let found = ask(people, (to, None, 1)).await?;
    if found.len() > 1 || found.iter().any(|one| one.id != id) {
        let id = inert(id, 100);
        return Err(wrong(format!(
            "it was asked for {id:?} and named others: answer this one or nobody"
        )));
    }
    Ok(Page {
        people: found,
        is_last: true,
    })
}

async fn some(
    people: &dyn People,
    to: &To,
    (after, limit): (Option<&str>, usize),
) -> Result<Page, BoardError> {
    let mut after = after.map(str::to_owned);
    for _ in 0..PASSED_OVER {
        let mut found = ask(people, (to, after.as_deref(), limit)).await?;
        found.truncate(limit);
        let Some(last) = found.last().map(|one| one.id.clone()) else {
            return Ok(Page {
                people: found,
                is_last: true,
            });
        };
        in_order(after.as_deref(), &found)?;
        let all = found.len();
        found.retain(|one| unfit_name(&one.id).is_none());
        if found.len() < all {
            let unfit = all - found.len();
            tracing::warn!(
                unfit,
                "the directory of people has ids that no event can carry; they are passed over"
            );
        }
        if !found.is_empty() {
            return Ok(Page {
                people: found,
                is_last: false,
            });
        }
        after = Some(last);
    }
    Err(wrong(format!(
        "{PASSED_OVER} pages had no id that an event can carry: correct its ids"
    )))
}

/// A page in another order would leave people out, or never end.
fn in_order(after: Option<&str>, found: &[Recipient]) -> Result<(), BoardError> {
    let ids = found.iter().map(|one| one.id.as_str());
    let mut before = after;
    for id in ids {
        if before.is_some_and(|before| id <= before) {
            let (id, before) = (inert(id, 100), inert(before.unwrap_or_default(), 100));
            return Err(wrong(format!(
                "it named {id:?} behind {before:?}: give ids in the order of their bytes, each once"
            )));
        }
        before = Some(id);
    }
    Ok(())
}

async fn ask(
    people: &dyn People,
    (to, after, limit): (&To, Option<&str>, usize),
) -> Result<Vec<Recipient>, BoardError> {
    match tokio::time::timeout(ANSWER_TIME, people.find(to, after, limit)).await {
        Ok(found) => found.map_err(BoardError::Directory),
        Err(_) => Err(wrong(format!("it took longer than {ANSWER_TIME:?}"))),
    }
}

fn wrong(text: String) -> BoardError {
    BoardError::Directory(text.into())
}

/// Why a directory could not be used, without saying again that it could not.
pub(crate) fn why(error: &BoardError) -> String {
    match error {
        BoardError::Directory(source) => causes(&**source),
        error => causes(error),
    }
}

/// The same for those who know errors of databases only.
pub(crate) fn as_store_error(error: BoardError) -> StoreError {
    match error {
        BoardError::Store(error) => error,
        error => StoreError::new(StoreErrorKind::Unreachable, causes(&error))
            .with_advice("look at the directory of people; the call is repeated"),
    }
}

/// Nobody is added to a directory that is kept elsewhere.
pub(crate) fn kept_elsewhere() -> StoreError {
    let text = "people are kept in a directory of its own: change them there";
    StoreError::new(StoreErrorKind::Invalid, text)
}

#[cfg(test)]
mod tests;
