//! The built binary, as people and scripts use it; one file an area.
#![cfg(all(feature = "sqlite", feature = "file"))]
#![allow(
    unreachable_pub,
    reason = "nothing of a test is reachable from outside; `pub` means beyond its module"
)]

mod astray;
mod config;
mod control;
mod dead;
mod dead_copies;
mod demo;
mod duties;
mod edit;
mod endpoint;
mod events;
mod faults;
mod flow;
mod groups;
mod help;
mod http;
mod inbox;
mod jobs;
mod listen;
mod notify;
#[cfg(feature = "postgres")]
mod postgres;
mod purge;
mod refuse;
mod replay;
mod restore;
mod schedule;
mod several;
mod stalled;
mod support;
mod what_works;
