//! A process that takes orders, at a steady rate, until it has taken enough or its standard input is closed.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::shop;
use crate::failure::{Failure, Result};

/// `cargo xtask producer`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The database of the shop
    #[arg(long)]
    pub(super) database: PathBuf,
    /// Orders to take; none: until standard input is closed
    #[arg(long)]
    pub(super) orders: Option<u64>,
    /// Customers that place them
    #[arg(long)]
    pub(super) customers: u64,
    /// Transactions per second, at most
    #[arg(long)]
    pub(super) rate: u64,
    /// Every so manieth transaction is rolled back
    #[arg(long)]
    pub(super) rollback_every: u64,
}

/// Takes orders; prints how many transactions were committed and how many rolled back.
pub(crate) fn run(args: &Args) -> Result<()> {
    let stop = stop_at_end_of_input();
    let mut connection = shop::open(&args.database)?;
    let began = Instant::now();
    let (mut tried, mut committed, mut rolled_back) = (0_u64, 0_u64, 0_u64);
    while args.orders.is_none_or(|orders| committed < orders) && !stop.load(Ordering::Relaxed) {
        tried += 1;
        // Multiplying by a prime visits the customers in an order that repeats late and favours none.
        let customer = format!("customer-{:04}", tried * 7_919 % args.customers);
        let tx = shop::begin(&mut connection)?;
        shop::place(&tx, &customer, tried)?;
        if tried.is_multiple_of(args.rollback_every) {
            tx.rollback()?;
            rolled_back += 1;
        } else {
            tx.commit()?;
            committed += 1;
        }
        let due = Duration::from_micros(tried * 1_000_000 / args.rate);
        thread::sleep(due.saturating_sub(began.elapsed()));
    }
    println!("{committed} {rolled_back}");
    Ok(())
}

/// A closed standard input is how a scenario says enough; it also closes when the scenario dies.
pub(super) fn stop_at_end_of_input() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.store(true, Ordering::Relaxed);
    });
    stop
}

/// What a producer did.
pub(super) struct Counts {
    pub(super) committed: u64,
    pub(super) rolled_back: u64,
}

/// Reads what a producer printed.
pub(super) fn counts(text: &str) -> Result<Counts> {
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(committed)), Some(Ok(rolled_back))) => Ok(Counts {
            committed,
            rolled_back,
        }),
        _ => Err(Failure::new(format!("the producer said {text:?}"))),
    }
}
