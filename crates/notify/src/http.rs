//! The application over HTTP: notifications are asked for, people are known, feeds are read and watched.
//!
//! Two kinds of callers, two kinds of proof:
//!
//! - **Services** ask for notifications and say who is there: `/notifications`, `/recipients`, `/topics`. They carry
//!   `Authorization: Bearer TOKEN`.
//! - **People** read their feed and say what they want: `/feed/{id}`, `/recipients/{id}/preferences`. They carry
//!   `X-Postrider-Signature`, or `?signature=` where a header cannot be set, as with `EventSource`: what [`sign`] makes
//!   of the secret and their id. The service that logged them in hands it to their page.
//!
//! The link in a mail carries a signature of its own, see [`sign_unsubscribe`], and can do nothing else.
//!
//! A proof is not asked for where the server listens on loopback and the token, or the secret, is not set. A wrong one
//! is refused everywhere.
//!
//! | call | by | what it does |
//! |---|---|---|
//! | `POST /notifications` | service | tells a user, a topic or everybody of an audience; twice is once |
//! | `GET /notifications/{id}`, `GET /notifications?event_id=` | service | what became of it, by channel |
//! | `PUT`, `GET`, `DELETE /recipients/{id}` | service | a person, and with `topics` what they are subscribed to |
//! | `POST /topics/{topic}/subscribers` | service | subscribes many |
//! | `PUT`, `DELETE /topics/{topic}/subscribers/{id}` | service | subscribes one, or the reverse |
//! | `GET`, `PUT /recipients/{id}/preferences` | person | what they want to hear of |
//! | `GET /feed/{id}?before=&limit=&archived=` | person | a page, newest first |
//! | `GET /feed/{id}/unread` | person | how many are neither read nor archived |
//! | `POST /feed/{id}/marks` | person | seen, read, archived: one, or all up to one |
//! | `GET /feed/{id}/live` | person | server-sent events: the unread count, and what is new |
//! | `GET`, `POST /unsubscribe/{id}?category=&signature=` | mail | turns mail of a category off (RFC 8058) |
//! | `GET /openapi.json` | anybody | all of this for programs (OpenAPI 3.1) |
//!
//! What is refused is answered with a problem document (RFC 9457): `code` is for programs, `detail` for people.
//!
//! ```no_run
//! # async fn example(board: std::sync::Arc<dyn postrider_notify::Board>) -> Result<(), Box<dyn std::error::Error>> {
//! use postrider_notify::http::{Api, Options};
//! use tokio_util::sync::CancellationToken;
//!
//! let api = Api::new(board, Options::default().token("a long random token").secret("another one"));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7788").await?;
//! api.serve(listener, CancellationToken::new()).await?;
//! # Ok(())
//! # }
//! ```

mod api;
mod demo;
mod feed;
mod guard;
mod hub;
mod live;
mod notifications;
mod openapi;
mod preferences;
mod problem;
mod read;
mod recipients;
mod request;
mod router;
mod serve;
mod signature;
mod stall;
mod topics;
mod unsubscribe;

pub use api::{Api, Options};
pub use demo::{Demo, DemoUser, Sample, Send};
pub use hub::Hub;
pub use signature::{sign, sign_unsubscribe};
