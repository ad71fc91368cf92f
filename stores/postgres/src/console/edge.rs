//! Where the history begins and ends by place. No index tells; but a day is filled from its first page to its last, so
//! the outermost pages are near it, and that there is nothing beyond can be asked.

use tokio_postgres::Row;

use super::View;
use super::stretch::Way;
use crate::error::Result;

/// How many pages are looked at: events that are settled at the same time are a little out of order.
const PAGES: i64 = 4;

/// The place that the history begins with for whoever goes this way; none where its outermost pages do not tell.
pub(super) async fn edge(view: &View, way: Way) -> Result<Option<i64>> {
    let (most, order, beyond) = match way {
        Way::Up => ("min", "ASC", "<"),
        Way::Down => ("max", "DESC", ">"),
    };
    let outermost = view.sql(&format!(
        "SELECT right(c.relname, 8), pg_relation_size(c.oid) / current_setting('block_size')::bigint
         FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = '{{outbox_sent}}'::regclass AND c.relname ~ '_[0-9]{{8}}$' AND pg_relation_size(c.oid) > 0
         ORDER BY right(c.relname, 8) {order} LIMIT 1"
    ));
    let Some(day) = view.client().query_opt(&outermost, &[]).await? else {
        return Ok(None);
    };
    let (day, pages): (String, i64) = (day.try_get(0)?, day.try_get(1)?);
    let (from, to) = match way {
        Way::Up => (0, PAGES),
        Way::Down => ((pages - PAGES).max(0), pages),
    };
    // The bounds of the day are written out, so that the planner leaves out every other partition.
    let on_them = view.sql(&format!(
        "SELECT {most}(seq) FROM {{outbox_sent}}
         WHERE published_at >= timestamptz '{day} 00:00:00+00'
           AND published_at < timestamptz '{day} 00:00:00+00' + interval '24 hours'
           AND ctid >= '({from},0)'::tid AND ctid < '({to},0)'::tid"
    ));
    let found: Row = view.client().query_one(&on_them, &[]).await?;
    let Some(place) = found.try_get::<_, Option<i64>>(0)? else {
        return Ok(None);
    };
    let others = view.sql(&format!(
        "SELECT EXISTS (SELECT 1 FROM {{outbox_sent}} WHERE seq {beyond} $1)"
    ));
    let is_any: bool = view.client().query_one(&others, &[&place]).await?.try_get(0)?;
    Ok((!is_any).then_some(place))
}
