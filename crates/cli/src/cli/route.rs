//! What can be asked about routes.

use clap::Subcommand;

use crate::args::EventArgs;

#[derive(Debug, Subcommand)]
pub enum RouteCommand {
    /// Show which route wins for an event, why the others do not, and the addresses
    #[command(after_long_help = "\
Examples:
  postrider route explain --type OrderPlaced --aggregate ORDER/42
  postrider route explain --type OrderPlaced --aggregate ORDER/42 \\
    --header tenant=a --json

Exit code 1 if no route matches or an address cannot be filled in.")]
    Explain(Box<EventArgs>),
}
