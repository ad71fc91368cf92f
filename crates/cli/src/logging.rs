//! Log lines go to standard error, so that standard output stays what a command was asked for.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::config::{Format, Log};
use crate::failure::Failure;
use crate::lines::Lines;

/// The log of a long run, as configured. It never waits for whoever reads it.
/// A script that asked for JSON gets it here too, whatever the format.
pub fn configured(log: &Log, as_json: bool) -> Result<Lines, Failure> {
    let filter = EnvFilter::try_new(filter(&log.level))
        .map_err(|error| Failure::input("the log level cannot be used").because(&error))?;
    let lines = Lines::to(io::stderr())?;
    let writer = lines.clone();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || writer.clone())
        .with_span_events(FmtSpan::NONE)
        .with_ansi(io::stderr().is_terminal());
    match (as_json, log.format) {
        (false, Format::Text) => builder.init(),
        _ => builder.json().flatten_event(true).init(),
    }
    Ok(lines)
}

/// The log of a short command: only what went wrong.
pub fn quiet() {
    let filter = EnvFilter::new(filter("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false)
        .init();
}

/// The one filter: the chosen level is that of this program, and the client libraries below it speak only where
/// somebody names them. Their words repeat what our lines say, in worse ones, and at `debug` they hold statements
/// with parameters.
fn filter(chosen: &str) -> String {
    let (mut level, mut named) = ("error", Vec::new());
    for directive in chosen.split(',').map(str::trim) {
        match directive.rsplit_once('=') {
            None => level = directive,
            Some((target, asked)) => named.push(format!("{target}={}", without_payloads(target, asked))),
        }
    }
    let others = match level {
        "off" | "error" => level,
        _ => "warn",
    };
    let ours = format!("{others},postrider={level},lapin=off");
    let returned = "lapin::returned_messages=off".to_owned();
    [vec![ours], named, vec![returned]].concat().join(",")
}

/// No payload belongs into a log, whoever asks: at `trace` these clients write whole frames, and the one of RabbitMQ
/// writes at any level what came back, body and all.
fn without_payloads<'a>(target: &str, level: &'a str) -> &'a str {
    let client = ["lapin", "tokio_postgres"]
        .iter()
        .any(|client| target.starts_with(client));
    match (client, level) {
        (true, "trace") => "debug",
        _ => level,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written at a level of lines that name their own target and level.
    fn lines(chosen: &str) -> String {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::try_new(filter(chosen)).unwrap())
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(target: "lapin::channels", "lapin error");
            tracing::debug!(target: "lapin::channels", "lapin debug");
            tracing::trace!(target: "lapin::channels", "lapin trace");
            tracing::error!(target: "lapin::returned_messages", "lapin returned");
            tracing::debug!(target: "tokio_postgres::query", "postgres debug");
            tracing::trace!(target: "tokio_postgres::codec", "postgres trace");
            tracing::warn!(target: "rustls", "tls warn");
            tracing::info!(target: "rustls", "tls info");
            tracing::trace!(target: "postrider_relay::voice", "relay trace");
            tracing::debug!(target: "postrider", "binary debug");
        });
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_plain_level_is_that_of_this_program_alone() {
        for chosen in ["debug", "trace"] {
            let lines = lines(chosen);
            assert!(lines.contains("binary debug"), "{lines}");
            assert_eq!(lines.contains("relay trace"), chosen == "trace", "{lines}");
            assert!(lines.contains("tls warn"), "{lines}");
            for client in ["lapin", "tokio_postgres", "tls info"] {
                assert!(!lines.contains(client), "{client}: {lines}");
            }
        }
        assert_eq!(lines("off"), "");
    }

    #[test]
    fn a_client_that_is_named_speaks_but_never_of_payloads() {
        let lines = lines("warn,lapin::channels=trace,lapin=trace,tokio_postgres=trace,lap=trace");
        for said in ["lapin error", "lapin debug", "postgres debug"] {
            assert!(lines.contains(said), "{said}: {lines}");
        }
        for kept in ["lapin trace", "postgres trace", "lapin returned", "binary"] {
            assert!(!lines.contains(kept), "{kept}: {lines}");
        }
    }
}
