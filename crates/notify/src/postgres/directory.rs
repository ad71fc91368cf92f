//! Who is there, what they subscribed to and what they want.

use postrider_core::{BoxFuture, StoreError};
use tokio_postgres::types::Type;
use tokio_postgres::{Row, Transaction};

use super::{Pg, PgBoard, failed};
use crate::directory::{refuse_unfit, refuse_unfit_id};
use crate::people::{self, Page, as_store_error, kept_elsewhere};
use crate::{CHUNK, Channel, Directory, Member, Preference, Preferences, Recipient, To};

/// What is read of a person. The preferences come as three arrays of one length.
const MEMBER: &str = "r.id, r.name, r.locale, r.email, r.push_url, p.channels, p.categories, p.wanted";

const PREFERENCES: &str = "LEFT JOIN LATERAL (
        SELECT array_agg(channel) AS channels, array_agg(category) AS categories, array_agg(wanted) AS wanted
        FROM {notification_preference} WHERE user_id = r.id
    ) p ON true";

/// The next members that are meant, as this transaction sees them.
pub(super) async fn members(
    tx: &Transaction<'_>,
    pg: &Pg,
    (to, after, limit): (&To, Option<&str>, usize),
) -> Result<Vec<Member>, StoreError> {
    let (whom, template) = match to {
        To::User(id) => (
            id,
            "{notification_recipient} r {preferences} WHERE r.id = $1 AND r.id > $2",
        ),
        To::Topic(topic) => (
            topic,
            "{notification_subscription} s JOIN {notification_recipient} r ON r.id = s.user_id {preferences}
             WHERE s.topic = $1 AND s.user_id > $2 ORDER BY s.user_id",
        ),
    };
    let template = template.replace("{preferences}", PREFERENCES);
    let sql = pg.names.sql(&format!("SELECT {MEMBER} FROM {template} LIMIT $3"));
    let (after, limit) = (
        after.unwrap_or_default(),
        i64::try_from(limit).unwrap_or(i64::MAX),
    );
    let values = [
        (whom as _, Type::TEXT),
        (&after as _, Type::TEXT),
        (&limit as _, Type::INT8),
    ];
    let said = |error| failed(error, "reading who is meant");
    let rows = tx.query_typed(&sql, &values).await.map_err(said)?;
    rows.iter().map(|row| member(row).map_err(said)).collect()
}

/// Those who are next, and whether nobody comes behind them: of our tables, or the people that were asked for.
pub(super) async fn page(
    tx: &Transaction<'_>,
    pg: &Pg,
    (to, after): (&To, Option<&str>),
    asked: Option<&Page>,
) -> Result<(Vec<Member>, bool), StoreError> {
    match asked {
        Some(page) => Ok((wanting(tx, pg, &page.people).await?, page.is_last)),
        None => {
            let members = members(tx, pg, (to, after, CHUNK)).await?;
            let is_last = members.len() < CHUNK;
            Ok((members, is_last))
        }
    }
}

/// These people, with what they want as this transaction sees it.
async fn wanting(tx: &Transaction<'_>, pg: &Pg, people: &[Recipient]) -> Result<Vec<Member>, StoreError> {
    let sql = pg.names.sql(&format!(
        "SELECT r.id, '', NULL::text, NULL::text, NULL::text, p.channels, p.categories, p.wanted
         FROM unnest($1::text[]) WITH ORDINALITY r (id, place) {PREFERENCES} ORDER BY r.place"
    ));
    let said = |error| failed(error, "reading what people want");
    let ids: Vec<&str> = people.iter().map(|one| one.id.as_str()).collect();
    let rows = tx.query_typed(&sql, &[(&ids as _, Type::TEXT_ARRAY)]).await;
    let rows = rows.map_err(said)?;
    let mut members = Vec::with_capacity(people.len());
    for (row, person) in rows.iter().zip(people) {
        members.push(Member {
            recipient: person.clone(),
            ..member(row).map_err(said)?
        });
    }
    Ok(members)
}

fn member(row: &Row) -> Result<Member, tokio_postgres::Error> {
    let recipient = Recipient {
        id: row.try_get(0)?,
        name: row.try_get(1)?,
        locale: row.try_get(2)?,
        email: row.try_get(3)?,
        push_url: row.try_get(4)?,
    };
    let Some(channels) = row.try_get::<_, Option<Vec<&str>>>(5)? else {
        let preferences = Preferences::default();
        return Ok(Member {
            recipient,
            preferences,
        });
    };
    let (categories, wanted): (Vec<&str>, Vec<bool>) = (row.try_get(6)?, row.try_get(7)?);
    let mut said = Vec::with_capacity(channels.len());
    for ((channel, category), on) in channels.into_iter().zip(categories).zip(wanted) {
        let of = Channel::parse(channel);
        // A channel of a later version is none that this one could use.
        if channel.is_empty() || of.is_some() {
            said.push(Preference {
                channel: of,
                category: Some(category).filter(|text| !text.is_empty()).map(str::to_owned),
                on,
            });
        }
    }
    Ok(Member {
        recipient,
        preferences: Preferences(said),
    })
}

impl PgBoard {
    /// Runs one statement on texts, and answers how many rows it touched.
    async fn execute(
        &self,
        template: &str,
        texts: &[&str],
        ids: Option<&[String]>,
        doing: &str,
    ) -> Result<u64, StoreError> {
        refuse_unfit(
            texts
                .iter()
                .copied()
                .chain(ids.unwrap_or_default().iter().map(String::as_str)),
        )?;
        let sql = self.pg.names.sql(template);
        let given = (sql, texts, ids, doing);
        self.transaction(&given, |tx, (sql, texts, ids, doing)| {
            Box::pin(async move {
                let mut values: Vec<(&(dyn tokio_postgres::types::ToSql + Sync), Type)> = Vec::new();
                values.extend(texts.iter().map(|text| (text as _, Type::TEXT)));
                values.extend(ids.iter().map(|ids| (ids as _, Type::TEXT_ARRAY)));
                let done = tx.execute_typed(sql, &values).await;
                done.map_err(|error| failed(error, doing))
            })
        })
        .await
    }
}

impl Directory for PgBoard {
    fn keeps_people(&self) -> bool {
        self.pg.means.people.is_none()
    }

    fn members<'a>(
        &'a self,
        to: &'a To,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Member>, StoreError>> {
        Box::pin(async move {
            if let Some(own) = &self.pg.means.people {
                let page = people::page(&**own, (to, after, limit)).await;
                let given = (&self.pg, page.map_err(as_store_error)?.people);
                let wanting = self.transaction(&given, |tx, (pg, people)| Box::pin(wanting(tx, pg, people)));
                return wanting.await;
            }
            let given = (&self.pg, to, after, limit);
            self.transaction(&given, |tx, (pg, to, after, limit)| {
                Box::pin(members(tx, pg, (to, *after, *limit)))
            })
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
            } = recipient;
            let text = |given: &'a Option<String>| given.as_deref().unwrap_or_default();
            let texts = [id.as_str(), name, text(locale), text(email), text(push_url)];
            refuse_unfit_id(id)?;
            if !self.keeps_people() {
                return Err(kept_elsewhere());
            }
            // What is empty is as good as missing, in all three.
            let sql = "INSERT INTO {notification_recipient} (id, name, locale, email, push_url)
                VALUES ($1, $2, nullif($3, ''), nullif($4, ''), nullif($5, ''))
                ON CONFLICT (id) DO UPDATE SET name = excluded.name, locale = excluded.locale, email = excluded.email,
                    push_url = excluded.push_url";
            self.execute(sql, &texts, None, "storing a recipient").await?;
            Ok(())
        })
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            if !self.keeps_people() {
                let sql = "DELETE FROM {notification_preference} WHERE user_id = $1";
                return Ok(self
                    .execute(sql, &[id], None, "forgetting what a recipient wants")
                    .await?
                    > 0);
            }
            let sql = "WITH topics AS (DELETE FROM {notification_subscription} WHERE user_id = $1),
                said AS (DELETE FROM {notification_preference} WHERE user_id = $1)
                DELETE FROM {notification_recipient} WHERE id = $1";
            let gone = self.execute(sql, &[id], None, "removing a recipient").await?;
            Ok(gone > 0)
        })
    }

    fn subscribe<'a>(&'a self, topic: &'a str, ids: &'a [String]) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            if !self.keeps_people() {
                return Err(kept_elsewhere());
            }
            // In the order of their ids, so that two calls do not wait for each other.
            let sql = "INSERT INTO {notification_subscription} (topic, user_id)
                SELECT $1, u FROM (SELECT DISTINCT u COLLATE \"C\" AS u FROM unnest($2::text[]) u) ids ORDER BY u
                ON CONFLICT (topic, user_id) DO NOTHING";
            self.execute(sql, &[topic], Some(ids), "subscribing recipients")
                .await
        })
    }

    fn unsubscribe<'a>(
        &'a self,
        topic: &'a str,
        ids: &'a [String],
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            if !self.keeps_people() {
                return Err(kept_elsewhere());
            }
            let sql = "DELETE FROM {notification_subscription} WHERE topic = $1 AND user_id = ANY($2)";
            self.execute(sql, &[topic], Some(ids), "unsubscribing recipients")
                .await
        })
    }

    fn topics<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        Box::pin(async move {
            let given = (&self.pg, id);
            self.transaction(&given, |tx, (pg, id)| {
                Box::pin(async move {
                    let said = |error| failed(error, "reading what a recipient is subscribed to");
                    let sql = pg.names.sql(
                        "SELECT topic FROM {notification_subscription} WHERE user_id = $1 ORDER BY topic",
                    );
                    let rows = tx
                        .query_typed(&sql, &[(id as _, Type::TEXT)])
                        .await
                        .map_err(said)?;
                    rows.iter().map(|row| row.try_get(0).map_err(said)).collect()
                })
            })
            .await
        })
    }

    fn prefer<'a>(
        &'a self,
        id: &'a str,
        preference: &'a Preference,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let channel = preference.channel.map(Channel::as_str).unwrap_or_default();
            let category = preference.category.as_deref().unwrap_or_default();
            let own = "INSERT INTO {notification_preference} (user_id, channel, category, wanted)
                VALUES ($1, $2, $3, $4::boolean)
                ON CONFLICT (user_id, channel, category) DO UPDATE SET wanted = excluded.wanted";
            // Locked, so that nobody is removed in between and leaves this behind.
            let ours = "INSERT INTO {notification_preference} (user_id, channel, category, wanted)
                SELECT r.id, $2, $3, $4::boolean FROM {notification_recipient} r WHERE r.id = $1 FOR SHARE
                ON CONFLICT (user_id, channel, category) DO UPDATE SET wanted = excluded.wanted";
            let wanted = if preference.on { "true" } else { "false" };
            let texts = [id, channel, category, wanted];
            let sql = match self.keeps_people() {
                true => ours,
                false if self.recipient(id).await?.is_none() => return Ok(false),
                false => own,
            };
            let said = self
                .execute(sql, &texts, None, "storing what a recipient wants")
                .await?;
            Ok(said > 0)
        })
    }
}
