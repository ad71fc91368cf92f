//! Statements are templates: what stands in braces is the name of a table, or something that a database has words of
//! its own for.

/// Fills a template: each name in braces is handed over, with where to write what it stands for.
pub(crate) fn fill(template: &str, mut write: impl FnMut(&str, &mut String)) -> String {
    let mut out = String::with_capacity(template.len() + 256);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            out.push('{');
            rest = after;
            continue;
        };
        write(name, &mut out);
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// The template of what the view of an audience shows, one row a notification and channel: what the tables of document
/// 004 have.
pub(crate) const VIEW: &str =
    "SELECT n.id, n.event_id, n.user_id, upper(d.channel) AS notification_type, n.event_type, n.category,
    n.resource_id, n.title, n.body, n.created_at, n.read_at
FROM {notification} n JOIN {notification_delivery} d ON d.notification_id = n.id";

/// The condition that makes it the view of this audience.
pub(crate) fn of_audience(name: &str) -> String {
    format!("WHERE n.audience = '{}'", name.replace('\'', "''"))
}
