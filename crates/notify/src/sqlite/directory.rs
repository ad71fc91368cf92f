//! Who is there, what they subscribed to and what they want.

use postrider_core::{BoxFuture, StoreError};
use rusqlite::{Row, Transaction, params};

use super::{SqliteBoard, failed};
use crate::directory::{refuse_unfit, refuse_unfit_id};
use crate::people::{self, Page, as_store_error, kept_elsewhere};
use crate::{CHUNK, Channel, Directory, Member, Preference, Preferences, Recipient, To};

const ONE: &str = "SELECT r.id, r.name, r.locale, r.email, r.push_url FROM notification_recipient r
    WHERE r.id = ?1 AND r.id > ?2 LIMIT ?3";

/// The order of the join is the one of the statement: from one subscriber to the next, and not through all people.
const SUBSCRIBED: &str = "SELECT r.id, r.name, r.locale, r.email, r.push_url
    FROM notification_subscription s CROSS JOIN notification_recipient r ON r.id = s.user_id
    WHERE s.topic = ?1 AND s.user_id > ?2 ORDER BY s.user_id LIMIT ?3";

const PREFERENCES: &str = "SELECT channel, category, wanted FROM notification_preference WHERE user_id = ?1";

/// The next members that are meant, as this transaction sees them.
pub(super) fn members(
    tx: &Transaction<'_>,
    (to, after, limit): (&To, Option<&str>, usize),
) -> Result<Vec<Member>, StoreError> {
    let (sql, whom) = match to {
        To::User(id) => (ONE, id),
        To::Topic(topic) => (SUBSCRIBED, topic),
    };
    let found = read(tx, sql, (whom, after.unwrap_or_default(), limit));
    found.map_err(|error| failed(error, "reading who is meant"))
}

fn read(
    tx: &Transaction<'_>,
    sql: &str,
    (whom, after, limit): (&str, &str, usize),
) -> rusqlite::Result<Vec<Member>> {
    let mut statement = tx.prepare_cached(sql)?;
    let mut said = tx.prepare_cached(PREFERENCES)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let recipients = statement.query_map(params![whom, after, limit], recipient)?;
    let mut members = Vec::new();
    for recipient in recipients {
        let recipient = recipient?;
        let preferences = said.query_map([&recipient.id], preference)?;
        let preferences = preferences
            .filter_map(Result::transpose)
            .collect::<Result<_, _>>()?;
        members.push(Member {
            recipient,
            preferences: Preferences(preferences),
        });
    }
    Ok(members)
}

/// Those who are next, and whether nobody comes behind them: of our tables, or the people that were asked for.
pub(super) fn page(
    tx: &Transaction<'_>,
    (to, after): (&To, Option<&str>),
    asked: Option<&Page>,
) -> Result<(Vec<Member>, bool), StoreError> {
    match asked {
        Some(page) => Ok((wanting(tx, &page.people)?, page.is_last)),
        None => {
            let members = members(tx, (to, after, CHUNK))?;
            let is_last = members.len() < CHUNK;
            Ok((members, is_last))
        }
    }
}

/// These people, with what they want as this transaction sees it.
fn wanting(tx: &Transaction<'_>, people: &[Recipient]) -> Result<Vec<Member>, StoreError> {
    let read = || {
        let mut members = Vec::with_capacity(people.len());
        let mut said = tx.prepare_cached(PREFERENCES)?;
        for person in people {
            let preferences = said.query_map([&person.id], preference)?;
            let preferences = preferences.filter_map(Result::transpose);
            members.push(Member {
                recipient: person.clone(),
                preferences: Preferences(preferences.collect::<Result<_, _>>()?),
            });
        }
        Ok(members)
    };
    read().map_err(|error| failed(error, "reading what people want"))
}

fn recipient(row: &Row<'_>) -> rusqlite::Result<Recipient> {
    Ok(Recipient {
        id: row.get(0)?,
        name: row.get(1)?,
        locale: row.get(2)?,
        email: row.get(3)?,
        push_url: row.get(4)?,
    })
}

/// None for a channel of a later version: it is none that this one could use.
fn preference(row: &Row<'_>) -> rusqlite::Result<Option<Preference>> {
    let (channel, category): (String, String) = (row.get(0)?, row.get(1)?);
    let of = Channel::parse(&channel);
    if of.is_none() && !channel.is_empty() {
        return Ok(None);
    }
    Ok(Some(Preference {
        channel: of,
        category: Some(category).filter(|text| !text.is_empty()),
        on: row.get(2)?,
    }))
}

impl SqliteBoard {
    /// Runs one statement on texts, once for each of the last ones; answers how many rows it touched.
    async fn execute(
        &self,
        sql: &'static str,
        texts: Vec<String>,
        each: Option<Vec<String>>,
        doing: &'static str,
    ) -> Result<u64, StoreError> {
        let all = texts.iter().chain(each.iter().flatten());
        refuse_unfit(all.map(String::as_str))?;
        self.transaction(move |tx, _| {
            let said = |error| failed(error, doing);
            let mut statement = tx.prepare_cached(sql).map_err(said)?;
            let mut run = |last: Option<&String>| {
                let values = texts.iter().chain(last);
                statement
                    .execute(rusqlite::params_from_iter(values))
                    .map_err(said)
            };
            let touched = match &each {
                None => run(None)?,
                Some(each) => each
                    .iter()
                    .try_fold(0, |sum, last| Ok::<_, StoreError>(sum + run(Some(last))?))?,
            };
            Ok(touched as u64)
        })
        .await
    }
}

impl Directory for SqliteBoard {
    fn keeps_people(&self) -> bool {
        self.lite.means.people.is_none()
    }

    fn members<'a>(
        &'a self,
        to: &'a To,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Member>, StoreError>> {
        Box::pin(async move {
            if let Some(own) = &self.lite.means.people {
                let page = people::page(&**own, (to, after, limit)).await;
                let people = page.map_err(as_store_error)?.people;
                return self.read(move |tx, _| wanting(tx, &people)).await;
            }
            let (to, after) = (to.clone(), after.map(str::to_owned));
            self.read(move |tx, _| members(tx, (&to, after.as_deref(), limit)))
                .await
        })
    }

    fn recipient<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Member>, StoreError>> {
        Box::pin(async move {
            let to = To::User(id.to_owned());
            Ok(self.members(&to, None, 1).await?.pop())
        })
    }

    fn put<'a>(&'a self, recipient: &'a Recipient) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let Recipient {
                id,
                name,
                locale,
                email,
                push_url,
            } = recipient.clone();
            refuse_unfit_id(&id)?;
            if !self.keeps_people() {
                return Err(kept_elsewhere());
            }
            let or_empty = Option::unwrap_or_default;
            let texts = vec![id, name, or_empty(locale), or_empty(email), or_empty(push_url)];
            // What is empty is as good as missing, in all three.
            let sql = "INSERT INTO notification_recipient (id, name, locale, email, push_url)
                VALUES (?1, ?2, nullif(?3, ''), nullif(?4, ''), nullif(?5, ''))
                ON CONFLICT (id) DO UPDATE SET name = excluded.name, locale = excluded.locale, email = excluded.email,
                    push_url = excluded.push_url";
            self.execute(sql, texts, None, "storing a recipient").await?;
            Ok(())
        })
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        let id = id.to_owned();
        Box::pin(self.transaction(move |tx, lite| {
            let delete =
                |table, column| tx.execute(&format!("DELETE FROM {table} WHERE {column} = ?1"), [&id]);
            let gone = match lite.means.people {
                Some(_) => delete("notification_preference", "user_id"),
                None => delete("notification_subscription", "user_id")
                    .and_then(|_| delete("notification_preference", "user_id"))
                    .and_then(|_| delete("notification_recipient", "id")),
            };
            Ok(gone.map_err(|error| failed(error, "removing a recipient"))? > 0)
        }))
    }

    fn subscribe<'a>(&'a self, topic: &'a str, ids: &'a [String]) -> BoxFuture<'a, Result<u64, StoreError>> {
        let sql = "INSERT INTO notification_subscription (topic, user_id) VALUES (?1, ?2)
            ON CONFLICT (topic, user_id) DO NOTHING";
        Box::pin(async move {
            if !self.keeps_people() {
                return Err(kept_elsewhere());
            }
            let (topic, ids) = (vec![topic.to_owned()], Some(ids.to_vec()));
            self.execute(sql, topic, ids, "subscribing recipients").await
        })
    }

    fn unsubscribe<'a>(
        &'a self,
        topic: &'a str,
        ids: &'a [String],
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        let sql = "DELETE FROM notification_subscription WHERE topic = ?1 AND user_id = ?2";
        Box::pin(async move {
            if !self.keeps_people() {
                return Err(kept_elsewhere());
            }
            let (topic, ids) = (vec![topic.to_owned()], Some(ids.to_vec()));
            self.execute(sql, topic, ids, "unsubscribing recipients").await
        })
    }

    fn topics<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let id = id.to_owned();
        Box::pin(self.read(move |tx, _| {
            let topics = || {
                let sql = "SELECT topic FROM notification_subscription WHERE user_id = ?1 ORDER BY topic";
                let mut statement = tx.prepare_cached(sql)?;
                let topics = statement.query_map([&id], |row| row.get(0))?;
                topics.collect::<rusqlite::Result<Vec<String>>>()
            };
            topics().map_err(|error| failed(error, "reading what a recipient is subscribed to"))
        }))
    }

    fn prefer<'a>(
        &'a self,
        id: &'a str,
        preference: &'a Preference,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let channel = preference.channel.map(Channel::as_str).unwrap_or_default();
            let category = preference.category.as_deref().unwrap_or_default();
            let own = "INSERT INTO notification_preference (user_id, channel, category, wanted)
                VALUES (?1, ?2, ?3, ?4 = 'on')
                ON CONFLICT (user_id, channel, category) DO UPDATE SET wanted = excluded.wanted";
            let ours = "INSERT INTO notification_preference (user_id, channel, category, wanted)
                SELECT r.id, ?2, ?3, ?4 = 'on' FROM notification_recipient r WHERE r.id = ?1
                ON CONFLICT (user_id, channel, category) DO UPDATE SET wanted = excluded.wanted";
            let wanted = if preference.on { "on" } else { "off" };
            let texts = [id, channel, category, wanted].map(str::to_owned).to_vec();
            let sql = match self.keeps_people() {
                true => ours,
                false if self.recipient(id).await?.is_none() => return Ok(false),
                false => own,
            };
            let said = self
                .execute(sql, texts, None, "storing what a recipient wants")
                .await?;
            Ok(said > 0)
        })
    }
}
