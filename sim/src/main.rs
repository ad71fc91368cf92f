//! The command line of the simulator.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use postrider_sim::{Fault, Faults, Outcome, Plant, run};

const HELP: &str = "\
Runs the relay's engine on a simulated database, brokers and clock.

Usage: cargo xtask sim [--seeds N] [--start-seed S] [--plant NAME] [--json]
       cargo xtask sim --seed S [--plant NAME] [--trace]
       cargo xtask sim --list-plants

  --seeds N        run N seeds (default 1000)
  --start-seed S   begin with seed S (default 1)
  --seed S         run one seed
  --trace          print what happened in it
  --plant NAME     switch on a planted bug; the run stops at the first seed that finds it
  --list-plants    the planted bugs
  --json           end with one line of JSON

Exit code 1 when a promise was broken. A failing seed is replayed with: cargo xtask sim --seed S --trace";

struct Options {
    seeds: u64,
    start: u64,
    one: Option<u64>,
    trace: bool,
    plant: Option<Plant>,
    json: bool,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match options.one {
        Some(seed) => one(seed, &options),
        None => many(&options),
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options {
        seeds: 1_000,
        start: 1,
        one: None,
        trace: false,
        plant: None,
        json: false,
    };
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().ok_or(format!("{arg} needs a number"))?;
            value
                .parse::<u64>()
                .map_err(|_| format!("{arg} needs a number, got {value:?}"))
        };
        match arg.as_str() {
            "--seeds" => options.seeds = number()?,
            "--start-seed" => options.start = number()?,
            "--seed" => options.one = Some(number()?),
            "--trace" => options.trace = true,
            "--json" => options.json = true,
            "--plant" => {
                let name = args.next().ok_or("--plant needs a name")?;
                options.plant = Some(
                    Plant::parse(&name).ok_or(format!("there is no plant {name:?}; see --list-plants"))?,
                );
            }
            "--list-plants" => {
                for plant in Plant::ALL {
                    println!("{:<28} {}", plant.as_str(), plant.what());
                }
                return Ok(None);
            }
            "--help" | "-h" => {
                println!("{HELP}");
                return Ok(None);
            }
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    Ok(Some(options))
}

fn one(seed: u64, options: &Options) -> ExitCode {
    let outcome = run(seed, options.plant, options.trace);
    for line in &outcome.trace {
        println!("{line}");
    }
    report(&outcome);
    let mut faults = Faults::default();
    faults.add(&outcome.faults);
    if options.json {
        let simulated = outcome.simulated.as_secs_f64();
        summary(
            1,
            outcome.events,
            simulated,
            &faults,
            outcome.violations.len() as u64,
            outcome.duplicates,
        );
    }
    if outcome.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn report(outcome: &Outcome) {
    for violation in &outcome.violations {
        eprintln!("seed {}: {violation}", outcome.seed);
    }
}

fn many(options: &Options) -> ExitCode {
    let next = AtomicU64::new(options.start);
    let end = options.start + options.seeds;
    let found = AtomicU64::new(u64::MAX);
    let total = Mutex::new((0_u64, 0_u64, 0.0_f64, Faults::default(), 0_u64, 0_u64));
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // A planted bug is found once; the other seeds need not be run.
                    if seed >= end || (options.plant.is_some() && seed > found.load(Ordering::Relaxed)) {
                        return;
                    }
                    let outcome = run(seed, options.plant, false);
                    if !outcome.violations.is_empty() {
                        found.fetch_min(seed, Ordering::Relaxed);
                        if options.plant.is_none() {
                            report(&outcome);
                        }
                    }
                    let Ok(mut total) = total.lock() else { return };
                    total.0 += 1;
                    total.1 += outcome.events;
                    total.2 += outcome.simulated.as_secs_f64();
                    total.3.add(&outcome.faults);
                    total.4 += outcome.violations.len() as u64;
                    total.5 += outcome.duplicates;
                    if total.0.is_multiple_of(1_000) && options.plant.is_none() {
                        eprintln!(
                            "{} seeds, {} events, {:.0} s",
                            total.0,
                            total.1,
                            began.elapsed().as_secs_f64()
                        );
                    }
                }
            });
        }
    });
    let Ok(total) = total.into_inner() else {
        return ExitCode::FAILURE;
    };
    let (seeds, events, simulated, faults, violations, duplicates) = total;
    if options.json {
        summary(seeds, events, simulated, &faults, violations, duplicates);
    } else {
        let seconds = began.elapsed().as_secs_f64();
        println!("{seeds} seeds, {events} events, {simulated:.0} simulated seconds in {seconds:.0} s");
        println!("{duplicates} repeats, {violations} violations");
    }
    if let Some(plant) = options.plant {
        match found.load(Ordering::Relaxed) {
            u64::MAX => eprintln!("{} was not found in {seeds} seeds", plant.as_str()),
            seed => eprintln!("{} was found by seed {seed}", plant.as_str()),
        }
    }
    if violations == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn summary(seeds: u64, events: u64, simulated: f64, faults: &Faults, violations: u64, repeats: u64) {
    let faults: serde_json::Map<String, serde_json::Value> = Fault::ALL
        .iter()
        .map(|fault| (fault.as_str().to_owned(), faults.of(*fault).into()))
        .collect();
    println!(
        "{}",
        serde_json::json!({
            "seeds": seeds, "events": events, "simulated_seconds": simulated.round(), "faults": faults,
            "repeats": repeats, "violations": violations,
        })
    );
}
