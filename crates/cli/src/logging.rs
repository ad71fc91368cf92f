//! Log lines go to standard error, so that standard output stays what a command was asked for.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::config::{Format, Log};
use crate::failure::Failure;
use crate::lines::Lines;

/// The log of a long run, as configured. It never waits for whoever reads it.
pub fn configured(log: &Log) -> Result<Lines, Failure> {
    let filter = EnvFilter::try_new(&log.level)
        .map_err(|error| Failure::input("the log level cannot be used").because(&error))?;
    let filter = without_payloads(filter);
    let lines = Lines::to(io::stderr())?;
    let writer = lines.clone();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || writer.clone())
        .with_span_events(FmtSpan::NONE)
        .with_ansi(io::stderr().is_terminal());
    match log.format {
        Format::Text => builder.init(),
        Format::Json => builder.json().flatten_event(true).init(),
    }
    Ok(lines)
}

/// The log of a short command: only what went wrong.
pub fn quiet() {
    let filter = without_payloads(EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false)
        .init();
}

/// The client of RabbitMQ logs messages that come back, body and all. No payload belongs into a log.
fn without_payloads(filter: EnvFilter) -> EnvFilter {
    match "lapin::returned_messages=off".parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    }
}
