//! Push through a relay: one dead url beside others.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_notify::Channel;
use postrider_notify::deliver::PushSink;
use postrider_testkit::wait::{until, within};

use crate::support::{Carried, dispatch};
use crate::urls::{SOON, Urls, black_hole, options};

fn carried() -> Carried {
    Carried::by(
        Channel::Push,
        Arc::new(PushSink::new(options().timeout(SOON)).unwrap()),
    )
}

#[tokio::test]
async fn what_failed_once_is_told_again_with_the_same_id() {
    let urls = Urls::start(|_, before| if before == 0 { 500 } else { 200 }).await;
    let carried = carried();
    carried.enqueue(&dispatch(1, Channel::Push, &urls.url("/ann")));
    until("it is through", || {
        carried.is_empty() && urls.of("/ann").len() == 2
    })
    .await;
    let calls = urls.of("/ann");
    assert_eq!(calls[0].header("webhook-id"), calls[1].header("webhook-id"));
    assert_eq!(carried.heard.openings(), 0);
    assert_eq!(carried.stop().await.published, 1);
}

/// One url that says nothing and one where nobody listens, each with many deliveries, in between those of a good one.
#[tokio::test]
async fn dead_urls_hold_up_nobody_else() {
    let urls = Urls::start(|_, _| 204).await;
    let (silent, _holding) = black_hole().await;
    let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let carried = carried();
    let begun = Instant::now();
    for n in 0..300 {
        let to = match n % 3 {
            0 => format!("http://{silent}/x"),
            1 => format!("http://{closed}/x"),
            _ => urls.url("/ann"),
        };
        carried.enqueue(&dispatch(n, Channel::Push, &to));
    }
    let all = || urls.of("/ann").len() >= 100;
    within(
        Duration::from_secs(10),
        "the good url has everything",
        async || all().then_some(()),
    )
    .await;
    println!("100 beside 200 dead ones after {:?}", begun.elapsed());
    // Those that come later are not held up either, while the dead ones are tried again and again.
    for n in 300..400 {
        carried.enqueue(&dispatch(n, Channel::Push, &urls.url("/bob")));
    }
    let all = || urls.of("/bob").len() >= 100;
    within(Duration::from_secs(5), "the next has everything", async || {
        all().then_some(())
    })
    .await;
    until("the rest is parked, alive and uncharged", || {
        carried.store.with_model(|model, _| {
            let parked: Vec<_> = model.parked().collect();
            parked.len() == 200 && parked.iter().all(|row| !row.dead && row.attempts == 0)
        })
    })
    .await;
    assert_eq!(carried.heard.openings(), 0, "the circuit opened for everybody");
    carried.stop().await;
}

/// The whole network is away: nothing is lost, and all goes when it is back.
#[tokio::test]
async fn when_every_url_is_away_nothing_is_lost() {
    let port = TcpListener::bind(("127.0.0.1", 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let carried = carried();
    for n in 0..100 {
        carried.enqueue(&dispatch(
            n,
            Channel::Push,
            &format!("http://127.0.0.1:{port}/{}", n % 10),
        ));
    }
    until("the channel is taken for broken", || carried.heard.openings() > 0).await;
    let urls = Urls::start_at(port, |_, _| 204).await;
    let told = || urls.calls().len() >= 100 && carried.is_empty();
    within(Duration::from_secs(60), "everything goes", async || {
        told().then_some(())
    })
    .await;
    assert_eq!(carried.stop().await.dead, 0);
}
