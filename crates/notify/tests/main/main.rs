//! What every board promises, on every store.

mod suite;
