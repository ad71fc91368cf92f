//! The tests of the PostgreSQL store, in one binary, against a private server.
//!
//! - `conformance`: the suite that every store passes.

mod conformance;
