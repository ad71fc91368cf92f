//! The commands, one file each.

pub mod act;
pub mod config;
pub mod dead;
pub mod init;
pub mod migrate;
mod record;
pub mod route;
pub mod run;
pub mod send;
pub mod show;
mod start;
pub mod status;
pub mod tail;
mod watch;
