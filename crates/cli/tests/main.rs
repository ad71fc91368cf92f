//! The built binary, run the way people run it.
#![cfg(all(feature = "sqlite", feature = "file"))]
#![allow(
    unreachable_pub,
    reason = "nothing of a test is reachable from outside; `pub` means beyond its module"
)]

mod cases;
mod support;
