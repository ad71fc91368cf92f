//! Consumers apart from each other, each with a directory of its own: for several brokers, and for fan-out, where an
//! event takes effect at every consumer.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use postrider_testkit::ledger::{Arrived, Committed, JsonLines, Ledger, Report};

use super::{Database, Pair};
use crate::failure::Result;
use crate::scenario::effects;
use crate::scenario::process::Process;

/// A consumer of some queues.
pub(in crate::scenario) struct Apart {
    name: String,
    process: Process,
    directory: PathBuf,
}

/// What a consumer that has ended left behind.
pub(in crate::scenario) struct Left {
    name: String,
    directory: PathBuf,
}

impl Apart {
    /// How many events took effect so far.
    pub(in crate::scenario) fn effects(&self) -> Result<u64> {
        effects::effect_count(&self.directory)
    }

    /// Where its arrived.jsonl is.
    pub(in crate::scenario) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Lets it take what is still in the queues, and ends it.
    pub(in crate::scenario) fn finish(self) -> Result<Left> {
        self.process.finish(Duration::from_secs(120))?;
        Ok(Left {
            name: self.name,
            directory: self.directory,
        })
    }
}

/// When the last of the first `count` arrivals in a directory came, in microseconds since 1970; none while there are
/// fewer.
pub(in crate::scenario) fn arrival(directory: &Path, count: usize) -> Result<Option<u64>> {
    let text = fs::read_to_string(directory.join("arrived.jsonl"))?;
    match text.lines().nth(count.saturating_sub(1)) {
        Some(line) => Ok(serde_json::from_str::<Arrived>(line)?.at_us),
        None => Ok(None),
    }
}

impl Pair<'_> {
    /// Starts a consumer of some queues of some broker.
    pub(in crate::scenario) fn consumer_apart(
        &self,
        name: &str,
        url: &str,
        queues: &[String],
    ) -> Result<Apart> {
        let directory = self.directory().join(name);
        fs::create_dir_all(&directory)?;
        let mut command = self.stage.helper()?;
        command.args(["pair-consumer", "--url", url]);
        command.arg("--directory").arg(&directory);
        for queue in queues {
            command.args(["--queue", queue]);
        }
        let log = self.directory().join(format!("{name}.log"));
        let process = Process::start(name, command, &log)?;
        Ok(Apart {
            name: name.to_owned(),
            process,
            directory,
        })
    }

    /// A connection beside the one that the scenario asks with, for transactions that stay open.
    pub(in crate::scenario) fn connection(&self) -> Database {
        Database::new(self.database().url().to_owned(), self.runtime.handle().clone())
    }

    /// Compares orders whose ids begin with `prefix` with what came to consumers. An event is lost unless it arrived at
    /// each of the `expected` queues; when none is named, unless it arrived anywhere.
    pub(in crate::scenario) fn account_apart(
        &self,
        prefix: &str,
        left: &[&Left],
        expected: &[String],
    ) -> Result<Report> {
        let mut ledger = Ledger::expecting(expected.iter().map(String::as_str));
        let (committed, arrived) = ("committed.jsonl", "arrived.jsonl");
        // Appended, so that `--keep` has the lists of every account of a scenario.
        let mut committed = JsonLines::append(&self.directory().join(committed))?;
        let sql = "SELECT id, customer, n FROM orders WHERE starts_with(id, $1) ORDER BY customer, n";
        for row in self.database().rows(sql, &[&prefix])? {
            let (id, key, n): (String, String, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let line = Committed::new(id, key, u64::try_from(n)?);
            ledger.commit(&line)?;
            committed.write(&line)?;
        }
        committed.flush()?;
        let mut all = File::options()
            .create(true)
            .append(true)
            .open(self.directory().join(arrived))?;
        for consumer in left {
            let path = consumer.directory.join(arrived);
            ledger.read_arrived(BufReader::new(File::open(&path)?), arrived)?;
            std::io::copy(&mut File::open(&path)?, &mut all)?;
            let database = effects::database(&consumer.directory)?;
            let mut statement = database.prepare("SELECT id FROM effects")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                ledger.effect(&consumer.name, &row.get::<_, String>(0)?);
            }
        }
        Ok(ledger.report())
    }
}
