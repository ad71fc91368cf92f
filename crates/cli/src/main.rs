//! The binary `postrider`: configuration and wiring only.

fn main() {}
