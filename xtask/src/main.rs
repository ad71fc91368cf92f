//! Set-up, tests, simulator and scenarios of the Postrider workspace.

fn main() {}
