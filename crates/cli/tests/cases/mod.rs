//! The binary as people and scripts use it, one file an area.

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
