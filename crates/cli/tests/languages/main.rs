//! The SQL contract, kept with the drivers of other languages: psycopg, node-postgres, JDBC, pgx and psql insert events
//! in their own transactions, `postrider run` carries them to RabbitMQ, and what arrives is what was inserted, byte for
//! byte. The programs are in `testkit/languages`, and `docs/sql-contract.md` shows their files.
#![cfg(all(feature = "postgres", feature = "rabbitmq"))]

mod arrived;
mod cases;
mod commands;
mod inbox;
mod install;
mod programs;
mod psql;
#[cfg(all(feature = "sqlite", feature = "file"))]
mod sqlite;
mod stage;

use std::path::Path;
use std::process::Command;

use stage::Stage;

/// Fault G4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psycopg() {
    let stage = Stage::new().await;
    let mut cases = cases::all();
    cases.extend(cases::called());
    let program = programs::python(stage.folder(), stage.url());
    programs::feed(program, &commands::of(&cases, "order"));
    stage.expect(&cases).await;
}

/// Fault G4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_postgres() {
    with(programs::node).await;
}

/// Fault G4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jdbc() {
    with(programs::java).await;
}

/// Fault G4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pgx() {
    with(programs::go).await;
}

/// Fault G4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql() {
    let stage = Stage::new().await;
    let mut cases = cases::all();
    cases.extend(cases::called());
    psql::run_script(stage.url(), &psql::script(&cases));
    psql::run_order(stage.url());
    stage.expect(&cases).await;
}

/// Every case with a program that reads commands.
async fn with(program: fn(&Path, &str) -> Command) {
    let stage = Stage::new().await;
    let cases = cases::all();
    programs::feed(
        program(stage.folder(), stage.url()),
        &commands::of(&cases, "order"),
    );
    stage.expect(&cases).await;
}
