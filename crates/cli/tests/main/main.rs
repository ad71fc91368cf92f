//! The built binary, as people and scripts use it; one file an area.
#![cfg(all(feature = "sqlite", feature = "file"))]
#![allow(
    unreachable_pub,
    reason = "nothing of a test is reachable from outside; `pub` means beyond its module"
)]

mod config;
mod dead;
mod demo;
mod faults;
mod flow;
mod help;
mod http;
#[cfg(feature = "postgres")]
mod postgres;
mod refuse;
mod support;
