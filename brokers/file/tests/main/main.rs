//! Everything that the file sink promises, on real files.

mod crash;
mod full;
mod routed;
mod shared;
mod support;
mod whole;
