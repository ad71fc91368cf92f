//! Set-up, tests, simulator and scenarios of the Postrider workspace: `cargo xtask help` lists what it can do.

mod cargo;
mod failure;
#[cfg(test)]
mod pages;
mod scenario;
mod services;
mod sim;
mod test;
mod tidy;
mod tools;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use failure::Result;

/// Set-up, tests, simulator and scenarios of the Postrider workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Install what is missing, run every test, the simulator and the scenarios at a reduced size.
    ///
    /// Ends with the line `N passed, N failed`; exit code 1 if anything failed.
    Test,
    /// Run the simulator in release mode; the arguments are passed on (try `cargo xtask sim --help`).
    #[command(disable_help_flag = true)]
    Sim {
        /// Arguments of the simulator, such as --seeds 1000 --json
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Run one end-to-end proof with the real binary, or name them all.
    ///
    /// The last line of the output is one JSON object; exit code 1 unless its `ok` is true.
    Scenario(scenario::Args),
    /// Start, stop or look at a private PostgreSQL and RabbitMQ for working by hand.
    #[command(subcommand)]
    Services(services::Action),
    /// Keep the servers that `services up` started.
    #[command(hide = true)]
    ServicesKeeper,
    /// Report files that are too long, lines that are too wide, missing module documentation and unfinished code.
    Tidy,
    /// Take orders in a database of a scenario.
    #[command(hide = true)]
    Producer(scenario::ProducerArgs),
    /// Read the lines of a scenario and let each event take effect once.
    #[command(hide = true)]
    Consumer(scenario::ConsumerArgs),
    /// Take orders in the PostgreSQL of a scenario.
    #[command(hide = true)]
    PairProducer(scenario::PairProducerArgs),
    /// Read the queues of a scenario and let each event take effect once.
    #[command(hide = true)]
    PairConsumer(scenario::PairConsumerArgs),
    /// Run several relays in this process.
    #[command(hide = true)]
    PairEmbedded(scenario::PairEmbeddedArgs),
}

fn main() -> ExitCode {
    let done = match Task::parse() {
        Task::Test => test::run(),
        Task::Sim { arguments } => sim::pass_through(&arguments),
        Task::Scenario(args) => scenario::run(&args),
        Task::Services(action) => services::run(action),
        Task::ServicesKeeper => services::keep(),
        Task::Tidy => tidy::run(),
        Task::Producer(args) => scenario::produce(&args).map(|()| true),
        Task::Consumer(args) => scenario::consume(&args).map(|()| true),
        Task::PairProducer(args) => scenario::pair_produce(&args).map(|()| true),
        Task::PairConsumer(args) => scenario::pair_consume(&args).map(|()| true),
        Task::PairEmbedded(args) => scenario::pair_embed(&args).map(|()| true),
    };
    report(done)
}

/// True: nothing to complain of. False: what was looked at is not as it should be, and that has been said already.
fn report(done: Result<bool>) -> ExitCode {
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
