//! `postrider notify demo`: live feeds in a browser, with nothing installed.
//!
//! A shop commits events to an SQLite file, in which they become notifications without a broker; a page shows the
//! feeds. At the end the shop's own table is compared with what people were told.

mod account;
mod sample;
mod shop;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use postrider_core::Schema;
use postrider_notify::app::App;
use postrider_notify::http::Options;
use postrider_notify::{Board, BoardError, Recipient, SqliteBoard};
use postrider_sqlite::{Inbox, Outbox, SqliteEffects, SqliteOptions, SqliteStore};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::account::Account;
use self::shop::Shop;
use crate::cli::NotifyDemoArgs;
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::signal;

/// The name of the outbox in logs.
const OUTBOX: &str = "shop";
/// Where the page is unless somebody says otherwise.
const USUAL: &str = "127.0.0.1:7788";
/// How long everything that was committed may take to be told once the shop has closed.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether everything was told.
const LOOK: Duration = Duration::from_millis(50);

pub async fn demo(out: Output, args: &NotifyDemoArgs) -> Result<Done, Failure> {
    let folder = tempfile::Builder::new().prefix("postrider-notify-").tempdir()?;
    let path = folder.path().join("shop.db");
    let account = run(out, args, &path).await?;
    let clean = account.is_clean();
    let kept = (!clean).then(|| folder.keep().display().to_string());
    account.report(out, kept.as_deref())?;
    match clean {
        true => Ok(Done::Fine),
        false => Ok(Done::Found),
    }
}

async fn run(out: Output, args: &NotifyDemoArgs, path: &Path) -> Result<Account, Failure> {
    let listener = bind(args.listen).await?;
    let address = listener.local_addr()?;
    let failed = |error: &postrider_core::StoreError| Failure::store(OUTBOX, error);
    let store = SqliteStore::open(path, SqliteOptions::default()).map_err(|error| failed(&error))?;
    store.up().await.map_err(|error| failed(&error))?;
    let effects = SqliteEffects::open(path, SqliteOptions::default(), Inbox::default())
        .map_err(|error| failed(&error))?;
    effects.migrate().await.map_err(|error| failed(&error))?;
    let workflows = sample::workflows()
        .map_err(|error| Failure::input("the workflows of the demo are wrong").because(&error))?;
    let board = SqliteBoard::new(effects.clone(), Outbox::default(), Arc::new(workflows));
    people(&board)
        .await
        .map_err(|error| super::failed(OUTBOX, &error))?;
    let shop = Arc::new(Mutex::new(Shop::open(path)?));
    let options = Options::default().demo(sample::page(shop::sender(Arc::clone(&shop))));
    let app = App::builder(Arc::new(board.clone()), effects, board.handler())
        .outbox(OUTBOX, Arc::new(store))
        .direct(sample::AUDIENCES.map(|(name, _)| name.to_owned()))
        .http(listener, options)
        .build()
        .map_err(|error| Failure::input("the demo cannot be put together").because(&error))?;
    shop.lock().unwrap_or_else(PoisonError::into_inner).relay = Some(app.nudger());
    let url = format!("http://{address}/demo");
    out.either(&json!({ "url": url }), format!("open {url}"))?;

    let (stop_shop, stop_app) = (signal::stop_token(), CancellationToken::new());
    let running = tokio::spawn(app.run(stop_app.clone()));
    let selling = shop::start(Arc::clone(&shop), args.rate, stop_shop.clone());
    let closing = async {
        match args.duration {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    let _ = stop_shop.run_until_cancelled(closing).await;
    stop_shop.cancel();
    let sold = tokio::task::spawn_blocking(move || selling.join()).await;
    match sold {
        Ok(Ok(sold)) => sold?,
        _ => {
            return Err(Failure::backend(
                "the shop of the demo ended by a mistake of its own",
            ));
        }
    }
    settle(path).await?;
    stop_app.cancel();
    let ended = running
        .await
        .map_err(std::io::Error::other)
        .and_then(|ended| ended);
    ended.map_err(|error| Failure::backend("the demo stopped").because(&error))?;
    let rolled_back = shop.lock().unwrap_or_else(PoisonError::into_inner).rolled_back;
    Account::take(path, rolled_back)
}

/// The address that was asked for, the usual one, or any that is free where that is taken.
async fn bind(wanted: Option<SocketAddr>) -> Result<TcpListener, Failure> {
    let failed = |address: String, error: &std::io::Error| {
        Failure::backend(format!("the page cannot be served on {address}"))
            .because(error)
            .advice("give an address that is free with --listen")
    };
    if let Some(address) = wanted {
        if !address.ip().to_canonical().is_loopback() {
            let what = format!("other machines can reach {address}, and the demo shows everybody's feed");
            return Err(Failure::input(what).advice("listen on 127.0.0.1"));
        }
        let bound = TcpListener::bind(address).await;
        return bound.map_err(|error| failed(address.to_string(), &error));
    }
    match TcpListener::bind(USUAL).await {
        Ok(bound) => Ok(bound),
        Err(_) => {
            let bound = TcpListener::bind("127.0.0.1:0").await;
            bound.map_err(|error| failed("127.0.0.1".to_owned(), &error))
        }
    }
}

async fn people(board: &SqliteBoard) -> Result<(), BoardError> {
    use postrider_notify::Directory;
    board.migrate().await?;
    for (audience, people) in sample::AUDIENCES {
        for (id, name) in people {
            let recipient = Recipient {
                id: (*id).to_owned(),
                name: (*name).to_owned(),
                ..Recipient::default()
            };
            board.put(&recipient).await?;
            let topic = audience.to_lowercase();
            board.subscribe(&topic, &[(*id).to_owned()]).await?;
        }
    }
    Ok(())
}

/// Waits until everything that was committed was told, or it is clear that it never will be.
async fn settle(path: &Path) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    while Account::take(path, 0)?.missing() > 0 && Instant::now() < deadline {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
