//! The application over HTTP: a real server on a real board, asked by a real client.

mod app;
mod ask;
mod calls;
mod demo;
mod feed;
mod hostile;
mod live;
mod own;
mod support;
mod unsubscribe;
mod who;
