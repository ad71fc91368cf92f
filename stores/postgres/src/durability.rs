//! What a commit is worth: settings under which an event that was committed may vanish in a crash.

use tokio_postgres::Client;

use crate::error::Result;

/// The settings, what they must not be, and what that means. `synchronous_commit` is asked as the database and its
/// roles have it, because producers commit with it; the relay's own sessions set it.
const WEAK: [(&str, &str); 3] = [
    (
        "fsync",
        "a crash of the machine may damage the database and lose events that were committed",
    ),
    (
        "full_page_writes",
        "a crash of the machine may damage pages, and the events in them",
    ),
    (
        "synchronous_commit",
        "events of the last moments before a crash may be lost although their commit was confirmed",
    ),
];

/// One sentence for each setting that takes something from the promises.
pub(crate) async fn weaknesses(client: &Client) -> Result<Vec<String>> {
    // What is set for everybody, for this database or for a role in it; a session's own setting says nothing of others.
    let sql = "SELECT s.name, s.reset_val = 'off' OR EXISTS (
                   SELECT 1 FROM pg_catalog.pg_db_role_setting r
                   WHERE r.setdatabase IN (0, (SELECT d.oid FROM pg_catalog.pg_database d
                       WHERE d.datname = pg_catalog.current_database()))
                     AND s.name || '=off' = ANY (r.setconfig))
               FROM pg_catalog.pg_settings s WHERE s.name IN ('fsync', 'full_page_writes', 'synchronous_commit')";
    let mut found = Vec::new();
    for row in client.query(sql, &[]).await? {
        let (name, off): (&str, bool) = (row.try_get(0)?, row.try_get(1)?);
        if let Some((name, means)) = WEAK.iter().find(|(weak, _)| off && *weak == name) {
            found.push(format!("{name} is off: {means}; set {name} = on"));
        }
    }
    Ok(found)
}
