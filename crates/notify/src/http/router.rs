//! What is answered where.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use axum::routing::{get, post, put};

use super::guard::{Door, at_the_door, services};
use super::problem::{Answer, Problem};
use super::{Api, demo, feed, live, notifications, openapi, preferences, recipients, topics, unsubscribe};

/// How long an answer may take to begin. The databases have limits of their own; this one is for what has none.
const ANSWER_TIME: Duration = Duration::from_secs(30);

impl Api {
    /// The routes, for a service that has a server of its own. Everything asks for its proof, because who can reach
    /// that server is not known here; there is no demo. Call [`super::Hub::close`] when the server stops.
    pub fn router(&self) -> Router {
        self.routes(false)
    }

    pub(super) fn routes(&self, near: bool) -> Router {
        let door = Door {
            api: self.inner.clone(),
            near,
        };
        let for_services = Router::new()
            .route(
                "/notifications",
                post(notifications::send).get(notifications::of_event),
            )
            .route("/notifications/{id}", get(notifications::one))
            .route(
                "/recipients/{id}",
                put(recipients::put)
                    .get(recipients::get)
                    .delete(recipients::delete),
            )
            .route("/topics/{topic}/subscribers", post(topics::subscribe_many))
            .route(
                "/topics/{topic}/subscribers/{id}",
                put(topics::subscribe).delete(topics::unsubscribe),
            )
            .route_layer(middleware::from_fn_with_state(door.clone(), services));
        let for_people = Router::new()
            .route(
                "/recipients/{id}/preferences",
                get(preferences::get).put(preferences::put),
            )
            .route("/feed/{id}", get(feed::list))
            .route("/feed/{id}/unread", get(feed::unread))
            .route("/feed/{id}/marks", post(feed::mark))
            .route("/feed/{id}/live", get(live::live))
            .route("/openapi.json", get(openapi::document))
            .route("/unsubscribe/{id}", get(unsubscribe::ask).post(unsubscribe::off));
        let router = match near && self.inner.options.demo.is_some() {
            true => for_services.merge(for_people).merge(demo::routes()),
            false => for_services.merge(for_people),
        };
        router
            .fallback(nothing)
            .method_not_allowed_fallback(not_so)
            .layer(middleware::from_fn(in_time))
            .layer(middleware::from_fn_with_state(door.clone(), at_the_door))
            .with_state(door)
    }
}

async fn nothing() -> Problem {
    Problem::unknown(
        "there is nothing here; ask for /notifications, /recipients/{id}, /topics/{topic}/subscribers, or /feed/{id}",
    )
}

async fn not_so(method: Method) -> Problem {
    let detail = format!("{method} is not known here; the header `Allow` says what is");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail)
}

async fn in_time(request: Request, next: Next) -> Answer {
    let answer = tokio::time::timeout(ANSWER_TIME, next.run(request)).await;
    answer.unwrap_or_else(|_| {
        let detail = "there was no answer in time; send the same request again, nothing happens twice";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "late", detail).into_response()
    })
}
