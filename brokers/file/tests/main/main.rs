//! Everything that the file sink promises, on real files.

mod conformance;
mod conformance_source;
mod consume;
mod crash;
mod full;
mod routed;
mod shared;
mod support;
mod whole;
