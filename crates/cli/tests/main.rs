//! The built binary, run the way people run it.
#![cfg(all(feature = "sqlite", feature = "file"))]

mod cases;
mod support;
