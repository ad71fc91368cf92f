//! The binary `postrider`: configuration and wiring only.
//!
//! A run has three phases: the command line is read (`cli`), the configuration is read (`config`), and one command does
//! its work (`commands`, `demo`) with the stores and sinks that `wire` opens.

#![expect(
    unreachable_pub,
    reason = "nothing of a binary is reachable from outside; `pub` means beyond its module"
)]

mod archive;
mod args;
mod begin;
mod cli;
mod commands;
mod config;
#[cfg(feature = "sqlite")]
mod demo;
mod duties;
mod failure;
mod inbox;
mod leave;
mod lines;
mod listen;
mod logging;
mod notify;
mod output;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
mod signal;
#[cfg(feature = "sqlite")]
mod sqlite;
mod wire;

use std::process::ExitCode;

use clap::Parser;
use postrider_core::Verb;

use crate::cli::{
    Cli, Command, ConfigCommand, DeadCommand, JobCommand, MigrateCommand, NotifyCommand,
    NotifyMigrateCommand, RouteCommand, ScheduleCommand,
};
use crate::commands as run;
use crate::config::Config;
use crate::failure::{Done, Failure};
use crate::output::Output;

/// The demo is a service, a relay and a consumer in one process.
const DEMO_THREADS: usize = 3;

/// A relay, listeners, and people who read their feeds.
const NOTIFY_THREADS: usize = 4;

/// Calls wait for others most of the time.
const LISTEN_THREADS: usize = 2;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && std::env::args_os().any(|arg| arg == "--json") => {
            let failure = Failure::usage(&error);
            failure.report(true);
            return ExitCode::from(failure.code());
        }
        Err(error) => error.exit(),
    };
    match start(&cli) {
        Ok(done) => done.into(),
        Err(failure) => {
            failure.report(cli.json);
            ExitCode::from(failure.code())
        }
    }
}

fn start(cli: &Cli) -> Result<Done, Failure> {
    let out = Output::new(cli.json);
    match &cli.command {
        Command::Init { path } => run::init::init(out, path),
        Command::Demo(args) => {
            logging::quiet();
            runtime(DEMO_THREADS)?.block_on(demo(out, args))
        }
        Command::Notify(NotifyCommand::Demo(args)) => {
            logging::quiet();
            runtime(DEMO_THREADS)?.block_on(Box::pin(notify_demo(out, args)))
        }
        command => {
            let config = config::load(cli.config.as_deref())?;
            if let Command::Notify(NotifyCommand::Run { migrate }) = command {
                return notify_run(&config, out, *migrate, cli.json);
            }
            if let Command::Listen(args) = command {
                return listen(&config, out, args, cli.json);
            }
            let Command::Run {
                until_empty,
                migrate,
                outbox,
            } = command
            else {
                logging::quiet();
                return runtime(1)?.block_on(Box::pin(dispatch(command, &config, out)));
            };
            let lines = logging::configured(&config.log, cli.json)?;
            let wanted = run::run::Wanted {
                outbox: outbox.as_deref(),
                until_empty: *until_empty,
                migrate: *migrate,
                log_lines_dropped: lines.dropped(),
            };
            let runtime = runtime(config.outboxes.len())?;
            let done = runtime.block_on(Box::pin(run::run::run(&config, out, wanted)));
            lines.flush();
            // All that it had to end has ended; a write that hangs in a dead disk must not keep the process.
            runtime.shutdown_background();
            done
        }
    }
}

fn listen(config: &Config, out: Output, args: &cli::ListenArgs, json: bool) -> Result<Done, Failure> {
    let lines = logging::configured(&config.log, json)?;
    let listening = run::listen::listen(config, out, args, lines.dropped());
    let done = runtime(LISTEN_THREADS)?.block_on(Box::pin(listening));
    lines.flush();
    done
}

fn notify_run(config: &Config, out: Output, migrate: bool, json: bool) -> Result<Done, Failure> {
    let lines = logging::configured(&config.log, json)?;
    let running = run::notify::run::run(config, out, migrate, lines.dropped());
    let runtime = runtime(NOTIFY_THREADS)?;
    let done = runtime.block_on(Box::pin(running));
    lines.flush();
    // As in `postrider run`: it writes an archive, too.
    runtime.shutdown_background();
    done
}

/// A thread for each outbox, as far as there are cores. An event passes from task to task a dozen times on its way, and
/// waking another thread for each costs more than the work: at 500 events/s the median latency with two was a third
/// higher.
fn runtime(threads: usize) -> std::io::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.clamp(1, cores))
        .enable_all()
        .build()
}

#[cfg(feature = "sqlite")]
async fn demo(out: Output, args: &args::DemoArgs) -> Result<Done, Failure> {
    demo::demo(out, args).await
}

#[cfg(not(feature = "sqlite"))]
#[expect(clippy::unused_async, reason = "stands in for one that waits")]
async fn demo(_out: Output, _args: &args::DemoArgs) -> Result<Done, Failure> {
    Err(needs_sqlite("the demo"))
}

#[cfg(feature = "sqlite")]
async fn notify_demo(out: Output, args: &cli::NotifyDemoArgs) -> Result<Done, Failure> {
    notify::demo::demo(out, args).await
}

#[cfg(not(feature = "sqlite"))]
#[expect(clippy::unused_async, reason = "stands in for one that waits")]
async fn notify_demo(_out: Output, _args: &cli::NotifyDemoArgs) -> Result<Done, Failure> {
    Err(needs_sqlite("the demo"))
}

#[cfg(not(feature = "sqlite"))]
fn needs_sqlite(what: &str) -> Failure {
    Failure::input(format!(
        "{what} needs sqlite, which is not available in this build"
    ))
    .advice("use a build of postrider with the cargo feature `sqlite`")
}

async fn dispatch(command: &Command, config: &Config, out: Output) -> Result<Done, Failure> {
    match command {
        // `start` has seen to them.
        Command::Init { .. } | Command::Demo(_) | Command::Run { .. } | Command::Listen(_) => Ok(Done::Fine),
        Command::Notify(command) => notify(command, config, out).await,
        Command::Migrate(command) => migrate(command, config, out).await,
        Command::Config(ConfigCommand::Check) => run::config::check(config, out),
        Command::Config(ConfigCommand::Show) => run::config::show(config, out),
        Command::Route(RouteCommand::Explain(event)) => run::route::explain(config, out, event),
        Command::Send(args) => run::send::send(config, out, args).await,
        Command::Status { check, outbox } => {
            run::status::status(config, out, outbox.as_deref(), *check).await
        }
        Command::Show { id, payload, outbox } => {
            show(config, out, id, *payload, outbox.as_deref(), false).await
        }
        Command::Tail(args) => run::tail::tail(config, out, args).await,
        Command::Dead(command) => dead(command, config, out).await,
        Command::Events(args) => run::events::events(config, out, args).await,
        Command::Replay(args) => run::replay::replay(config, out, args).await,
        Command::Schedule(command) => schedule(command, config, out).await,
        Command::Pause(args) => run::control::pause(config, out, args).await,
        Command::Resume(args) => run::control::resume(config, out, args).await,
        Command::Limit(args) => run::control::limit(config, out, args).await,
        Command::Job(command) => job(command, config, out).await,
        Command::Audit { limit, outbox } => run::audit::audit(config, out, outbox.as_deref(), *limit).await,
        Command::Purge(args) => run::purge::purge(config, out, args).await,
        Command::Inbox(command) => run::inbox::inbox(config, out, command).await,
        Command::Archive(command) => run::archive::archive(config, out, command).await,
    }
}

async fn notify(command: &NotifyCommand, config: &Config, out: Output) -> Result<Done, Failure> {
    match command {
        // `start` has seen to them.
        NotifyCommand::Run { .. } | NotifyCommand::Demo(_) => Ok(Done::Fine),
        NotifyCommand::Migrate(NotifyMigrateCommand::Up) => run::notify::migrate::up(config, out).await,
        NotifyCommand::Migrate(NotifyMigrateCommand::Print) => run::notify::migrate::print(config, out),
        NotifyCommand::Sign { user } => run::notify::sign(config, out, user),
        NotifyCommand::Show(args) => run::notify::show::show(config, out, args).await,
    }
}

async fn migrate(command: &MigrateCommand, config: &Config, out: Output) -> Result<Done, Failure> {
    match command {
        MigrateCommand::Up(it) => run::migrate::up(config, out, it.outbox.as_deref()).await,
        MigrateCommand::Status(it) => run::migrate::status(config, out, it.outbox.as_deref()).await,
        MigrateCommand::Down { outbox, yes } => {
            run::migrate::down(config, out, outbox.outbox.as_deref(), *yes).await
        }
        MigrateCommand::Print(args) if args.inbox => run::inbox::print(config, out),
        MigrateCommand::Print(args) => run::migrate::print(config, out, args),
    }
}

async fn dead(command: &DeadCommand, config: &Config, out: Output) -> Result<Done, Failure> {
    match command {
        DeadCommand::List(args) => match &args.group {
            Some(None) => run::dead::groups(config, out, args).await,
            group => {
                run::dead::list(
                    config,
                    out,
                    args,
                    group.iter().flatten().next().map(String::as_str),
                )
                .await
            }
        },
        DeadCommand::Edit(args) => run::edit::edit(config, out, args).await,
        DeadCommand::Show { id, payload, outbox } => {
            show(config, out, id, *payload, outbox.as_deref(), true).await
        }
        DeadCommand::Redrive(args) => run::act::act(config, out, args, Verb::Redrive).await,
        DeadCommand::Discard { act, reason } => {
            run::act::act(config, out, act, Verb::Discard(reason.clone())).await
        }
    }
}

async fn schedule(command: &ScheduleCommand, config: &Config, out: Output) -> Result<Done, Failure> {
    match command {
        ScheduleCommand::List { filter, limit } => run::schedule::list(config, out, filter, *limit).await,
        ScheduleCommand::Move { ids, after, outbox } => {
            let outbox = outbox.outbox.as_deref();
            run::schedule::shift(config, out, run::schedule::Wanted { ids, outbox }, *after).await
        }
        ScheduleCommand::Cancel { ids, reason, outbox } => {
            let outbox = outbox.outbox.as_deref();
            run::schedule::cancel(config, out, run::schedule::Wanted { ids, outbox }, reason).await
        }
    }
}

async fn job(command: &JobCommand, config: &Config, out: Output) -> Result<Done, Failure> {
    match command {
        JobCommand::List { limit, outbox } => {
            run::job::list(config, out, outbox.outbox.as_deref(), *limit).await
        }
        JobCommand::Show(job) => run::job::show(config, out, job.into()).await,
        JobCommand::Resume { job, rate } => run::job::resume(config, out, job.into(), *rate).await,
        JobCommand::Pause(job) => run::job::pause(config, out, job.into()).await,
        JobCommand::Cancel(job) => run::job::cancel(config, out, job.into()).await,
    }
}

async fn show(
    config: &Config,
    out: Output,
    id: &str,
    payload: bool,
    outbox: Option<&str>,
    only_dead: bool,
) -> Result<Done, Failure> {
    run::show::show(
        config,
        out,
        run::show::Wanted {
            id,
            outbox,
            payload,
            only_dead,
        },
    )
    .await
}
