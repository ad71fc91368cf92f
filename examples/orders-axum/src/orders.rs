//! Orders: the business of this service.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use postrider::DomainEvent;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

use crate::App;

/// What a customer sends.
#[derive(Deserialize)]
pub(crate) struct NewOrder {
    customer: String,
    total: i64,
}

/// What a customer gets.
#[derive(Serialize)]
pub(crate) struct Order {
    id: i64,
    customer: String,
    total: i64,
}

/// What others are told. Orders of one customer are published in the order in which they were placed.
#[derive(Serialize)]
struct OrderPlaced<'a> {
    order: i64,
    customer: &'a str,
    total: i64,
}

impl DomainEvent for OrderPlaced<'_> {
    const EVENT_TYPE: &'static str = "OrderPlaced";
    const AGGREGATE_TYPE: &'static str = "CUSTOMER";
    fn aggregate_id(&self) -> String {
        self.customer.to_owned()
    }
}

/// `POST /orders`: the order and its event, or neither.
pub(crate) async fn place(
    State(app): State<App>,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), Failure> {
    let mut tx = app.pool.begin().await?;
    // Two orders of one customer at the same time take turns here; without that they would have no order to keep.
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")
        .bind(&new.customer)
        .execute(&mut *tx)
        .await?;
    let insert = "INSERT INTO orders (customer, total) VALUES ($1, $2) RETURNING id";
    let id = sqlx::query_scalar(insert)
        .bind(&new.customer)
        .bind(new.total)
        .fetch_one(&mut *tx)
        .await?;
    let placed = OrderPlaced {
        order: id,
        customer: &new.customer,
        total: new.total,
    };
    app.outbox.enqueue_sqlx(&mut tx, &placed.to_event()?).await?;
    tx.commit().await?;
    let order = Order {
        id,
        customer: new.customer,
        total: new.total,
    };
    Ok((StatusCode::CREATED, Json(order)))
}

/// `GET /orders/{id}`
pub(crate) async fn show(State(app): State<App>, Path(id): Path<i64>) -> Result<Json<Order>, Failure> {
    let select = "SELECT customer, total FROM orders WHERE id = $1";
    let found = sqlx::query_as(select).bind(id).fetch_optional(&app.pool).await?;
    let (customer, total) = found.ok_or(Failure(StatusCode::NOT_FOUND))?;
    Ok(Json(Order { id, customer, total }))
}

/// A real service has migrations of its own.
pub(crate) async fn create_table(pool: &PgPool) -> sqlx::Result<()> {
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS orders (
            id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            customer text NOT NULL,
            total    bigint NOT NULL
        )",
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Why a request was not served. The reason goes to the log and not to whoever asked.
pub(crate) struct Failure(StatusCode);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        tracing::error!(%error, "a request failed");
        Self(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl axum::response::IntoResponse for Failure {
    fn into_response(self) -> axum::response::Response {
        self.0.into_response()
    }
}
