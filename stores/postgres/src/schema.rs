//! The tables: made, checked, printed and removed.

mod days;
mod turns;

use std::time::Duration;

use postrider_core::{BoxFuture, Migration, Schema, SchemaStatus, StoreError, knows, wrong_version};

use crate::PgStore;
use crate::config::PgOptions;
use crate::error::Result;
use crate::ident::{Tables, role};
use crate::operator::Work;
use turns::{keep_out, take_turns};

/// What this program needs.
pub(crate) const WANTED: u32 = STEPS.len() as u32;

/// A migration may wait for locks and build indexes; the limits of a relay's calls are not for it.
const PATIENCE: Duration = Duration::from_secs(600);

struct Step {
    name: &'static str,
    up: &'static str,
    down: &'static str,
}

const STEPS: &[Step] = &[
    Step {
        name: "tables",
        up: include_str!("sql/0001_tables.up.sql"),
        down: include_str!("sql/0001_tables.down.sql"),
    },
    Step {
        name: "functions",
        up: include_str!("sql/0002_functions.up.sql"),
        down: include_str!("sql/0002_functions.down.sql"),
    },
    Step {
        name: "views",
        up: include_str!("sql/0003_views.up.sql"),
        down: include_str!("sql/0003_views.down.sql"),
    },
    Step {
        name: "lifecycle",
        up: include_str!("sql/0004_lifecycle.up.sql"),
        down: concat!(
            include_str!("sql/0004_lifecycle.down.sql"),
            include_str!("sql/0003_views.up.sql")
        ),
    },
];

impl Schema for PgStore {
    fn migrations(&self) -> Vec<Migration> {
        migrations(self.tables(), self.options())
    }

    /// A relay and the console need no more than this. Producers need `INSERT` on the outbox table, and
    /// only where functions are not for everybody `EXECUTE` on those that make ids and send.
    fn grants(&self, name: &str) -> Result<String, StoreError> {
        let tables = self.tables();
        let schema = tables.schema();
        let mut sql = format!("GRANT USAGE ON SCHEMA \"{schema}\" TO {{role}};\n");
        sql.push_str(include_str!("sql/grants.sql"));
        Ok(tables.sql(&sql).replace("{role}", &role(name)))
    }

    fn status(&self) -> BoxFuture<'_, Result<SchemaStatus, StoreError>> {
        Box::pin(
            self.operate("looking at the outbox tables", PATIENCE, |work| async move {
                status(&work).await
            }),
        )
    }

    fn up(&self) -> BoxFuture<'_, Result<Vec<u32>, StoreError>> {
        Box::pin(turns::patiently(self))
    }

    fn complete(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(days::index(self))
    }

    fn down(&self) -> BoxFuture<'_, Result<Vec<u32>, StoreError>> {
        Box::pin(
            self.operate("removing the outbox tables", PATIENCE, |work| async move {
                down(&work).await
            }),
        )
    }
}

/// Checks that the tables are the ones that this program knows. The version comes with the answer of every call, so
/// that a migration that another process makes is noticed at once. One version ahead is fine: programs are rolled out
/// behind their migrations.
pub(crate) fn check(installed: Option<i32>) -> Result<()> {
    match u32::try_from(installed.unwrap_or(0)).unwrap_or(0) {
        version if knows(WANTED, version) => Ok(()),
        other => Err(wrong_version(WANTED, other).into()),
    }
}

pub(crate) fn migrations(tables: &Tables, options: &PgOptions) -> Vec<Migration> {
    let shards = options.shards.clamp(1, 1_024).to_string();
    let strict = if options.strict_keys {
        include_str!("sql/strict_keys.sql")
    } else {
        ""
    };
    let fill = |text: &str| tables.sql(&text.replace("{strict}", strict).replace("{shards}", &shards));
    (1..)
        .zip(STEPS)
        .map(|(version, step)| Migration {
            version,
            name: step.name,
            up: fill(step.up),
            down: fill(step.down),
        })
        .collect()
}

async fn installed(work: &Work) -> Result<u32> {
    let name = work.sql("{outbox_migrations}");
    let row = work
        .client()
        .query_one("SELECT to_regclass($1) IS NOT NULL", &[&name])
        .await?;
    if !row.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let sql = work.sql("SELECT coalesce(max(version), 0) FROM {outbox_migrations}");
    let version: i32 = work.client().query_one(&sql, &[]).await?.try_get(0)?;
    Ok(u32::try_from(version).unwrap_or(0))
}

async fn status(work: &Work) -> Result<SchemaStatus> {
    let mut status = SchemaStatus {
        installed: installed(work).await?,
        wanted: WANTED,
        queued: 0,
        parked: 0,
        differs: Vec::new(),
    };
    if status.installed > 0 {
        let sql = work.sql(
            "SELECT (SELECT count(*) FROM {outbox}), (SELECT count(*) FROM {outbox_parked} WHERE seq > 0)",
        );
        let row = work.client().query_one(&sql, &[]).await?;
        let count = |index| -> Result<u64> { Ok(u64::try_from(row.try_get::<_, i64>(index)?).unwrap_or(0)) };
        (status.queued, status.parked) = (count(0)?, count(1)?);
        status.differs = differs(work).await?;
    }
    Ok(status)
}

/// Compares what was fixed when the tables were made with what is asked for now.
async fn differs(work: &Work) -> Result<Vec<String>> {
    let sql = work.sql(
        "SELECT (SELECT count(*) FROM {outbox_shard}), EXISTS (SELECT FROM pg_trigger
         WHERE tgrelid = '{outbox}'::regclass AND tgname = {literal outbox_strict})",
    );
    let row = work.client().query_one(&sql, &[]).await?;
    let (shards, strict): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
    let options = &work.options;
    let told = |setting: &str, made: &str, asked: &str| {
        format!(
            "{setting} is {asked} in the configuration and {made} in the tables, which is what holds: \
             it was fixed when they were made"
        )
    };
    let mut differs = Vec::new();
    if shards != i64::from(options.shards) {
        differs.push(told("shards", &shards.to_string(), &options.shards.to_string()));
    }
    if strict != options.strict_keys {
        differs.push(told(
            "strict_keys",
            &strict.to_string(),
            &options.strict_keys.to_string(),
        ));
    }
    Ok(differs)
}

async fn up(work: &Work) -> Result<Vec<u32>> {
    take_turns(work).await?;
    let installed = installed(work).await?;
    if installed > WANTED && !knows(WANTED, installed) {
        return Err(wrong_version(WANTED, installed).into());
    }
    let mut taken = Vec::new();
    for step in migrations(&work.tables, &work.options)
        .into_iter()
        .filter(|step| step.version > installed)
    {
        work.client().batch_execute(&step.up).await?;
        taken.push(step.version);
    }
    Ok(taken)
}

async fn down(work: &Work) -> Result<Vec<u32>> {
    take_turns(work).await?;
    let mut found = installed(work).await?;
    if found > WANTED {
        return Err(wrong_version(WANTED, found).into());
    }
    if found > 0 {
        keep_out(work).await?;
        let status = status(work).await?;
        found = status.installed;
        status.check_removable()?;
    }
    let mut taken = Vec::new();
    for step in migrations(&work.tables, &work.options)
        .into_iter()
        .rev()
        .filter(|step| step.version <= found)
    {
        work.client().batch_execute(&step.down).await?;
        taken.push(step.version);
    }
    Ok(taken)
}
