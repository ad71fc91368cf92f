//! One call of a url: what it carries, and what its answers mean.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use postrider_core::{Answer, ErrorKind, Sink};
use postrider_notify::deliver::{PushOptions, PushSink};
use postrider_notify::{Channel, Dispatch};
use postrider_testkit::wait::eventually;
use sha2::Sha256;

use crate::support::{dispatch, failure, is_confirmed, publish};
use crate::urls::{SECRET, SOON, Urls, black_hole, options};

fn push(options: PushOptions) -> PushSink {
    PushSink::new(options).unwrap()
}

#[tokio::test]
async fn a_url_is_told_and_can_check_who_told_it() {
    let urls = Urls::start(|_, _| 204).await;
    let told = Dispatch {
        title: "“Hello”\r\n<b>é😀".to_owned(),
        ..dispatch(7, Channel::Push, &urls.url("/ann?token=s3cret"))
    };
    let answers = publish(&push(options()), &[told]).await;
    let Answer::Confirmed(receipt) = &answers[0] else {
        panic!("{answers:?}");
    };
    assert_eq!(receipt.0.as_deref(), Some("204"));
    let call = urls.of("/ann").remove(0);
    assert_eq!(
        call.json(),
        serde_json::json!({
            "id": 7, "user_id": format!("user-of-{}", urls.url("/ann?token=s3cret")), "title": "“Hello”\r\n<b>é😀",
            "body": "Text 7", "category": "orders", "event_id": "e-7", "event_type": "OrderPlaced",
        })
    );
    assert_eq!(call.header("content-type"), "application/json");
    assert_eq!(call.header("webhook-id"), "notification-7-push");
    let time: u64 = call.header("webhook-timestamp").parse().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(now.abs_diff(time) < 60);
    let key = STANDARD.decode(SECRET.strip_prefix("whsec_").unwrap()).unwrap();
    let mut keyed = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    keyed.update(format!("notification-7-push.{time}.{}", call.body).as_bytes());
    let signature = call.header("webhook-signature").strip_prefix("v1,").unwrap();
    keyed.verify_slice(&STANDARD.decode(signature).unwrap()).unwrap();
}

#[tokio::test]
async fn answers_mean_what_they_say_of_one_url() {
    let urls = Urls::start(|call, _| call.path[1..].parse().unwrap_or(204)).await;
    let sink = push(options());
    for (status, kind) in [
        (302, ErrorKind::Rejected),
        (400, ErrorKind::Rejected),
        (403, ErrorKind::Rejected),
        (404, ErrorKind::AddressNotFound),
        (410, ErrorKind::AddressNotFound),
        (429, ErrorKind::AddressRefused),
        (500, ErrorKind::AddressRefused),
        (503, ErrorKind::AddressRefused),
    ] {
        let failure = failure(
            &sink,
            dispatch(1, Channel::Push, &urls.url(&format!("/{status}"))),
        )
        .await;
        assert_eq!((failure.kind, failure.maybe_sent), (kind, false), "{status}");
        assert!(failure.text.contains(&status.to_string()), "{}", failure.text);
    }
    assert!(urls.of("/elsewhere").is_empty(), "a redirect was followed");
}

#[tokio::test]
async fn a_url_that_asks_for_a_pause_gets_it_and_the_others_are_not_paused() {
    let urls = Urls::start(|call, before| {
        if call.path == "/busy" && before == 0 {
            429
        } else {
            204
        }
    })
    .await;
    let sink = push(options());
    let busy = |id| dispatch(id, Channel::Push, &urls.url("/busy"));
    failure(&sink, busy(1)).await;
    let begun = urls.of("/busy")[0].at;
    let waiting = failure(&sink, busy(2)).await;
    assert_eq!(waiting.kind, ErrorKind::AddressRefused);
    assert!(waiting.text.contains("was not called"), "{}", waiting.text);
    assert_eq!(urls.of("/busy").len(), 1);
    let answers = publish(&sink, &[dispatch(3, Channel::Push, &urls.url("/free"))]).await;
    assert!(is_confirmed(&answers[0]));
    eventually("the pause ends", async || {
        is_confirmed(&publish(&sink, &[busy(4)]).await[0]).then_some(())
    })
    .await;
    assert!(begun.elapsed() >= Duration::from_millis(950));
}

#[tokio::test]
async fn nothing_on_this_machine_is_called_for_a_stranger() {
    let urls = Urls::start(|_, _| 204).await;
    let sink = push(PushOptions::new(SECRET.into()).timeout(SOON));
    let port = urls.base().rsplit_once(':').unwrap().1.to_owned();
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "2130706433",
    ] {
        let url = format!("https://{host}:{port}/s3cret");
        let failure = failure(&sink, dispatch(1, Channel::Push, &url)).await;
        assert_eq!(failure.kind, ErrorKind::AddressRefused, "{host}");
        assert!(
            !failure.maybe_sent && !failure.text.contains("s3cret"),
            "{}",
            failure.text
        );
        assert!(
            failure.text.contains("not public") || failure.text.contains("was not called"),
            "{}",
            failure.text
        );
    }
    let plain = failure(&sink, dispatch(1, Channel::Push, &urls.url("/s3cret"))).await;
    assert_eq!(plain.kind, ErrorKind::NotEncodable);
    assert!(plain.text.contains("https"), "{}", plain.text);
    assert!(urls.calls().is_empty());
}

#[tokio::test]
async fn a_url_that_is_none_is_named_without_being_shown() {
    let sink = push(options());
    for wrong in [
        "",
        "s3cret",
        "ftp://s3cret/",
        "https://user:s3cret@host/",
        "https://h/a b\r\ns3cret",
    ] {
        let failure = failure(&sink, dispatch(1, Channel::Push, wrong)).await;
        assert_eq!(failure.kind, ErrorKind::NotEncodable, "{wrong:?}");
        assert!(!failure.text.contains("s3cret"), "{}", failure.text);
    }
}

#[tokio::test]
async fn silence_is_unclear_and_costs_the_next_ones_no_time() {
    let (address, _holding) = black_hole().await;
    let sink = push(options().timeout(Duration::from_millis(300)));
    let silent = |id| dispatch(id, Channel::Push, &format!("http://{address}/x"));
    let first = failure(&sink, silent(1)).await;
    assert_eq!((first.kind, first.maybe_sent), (ErrorKind::AddressRefused, true));
    let again = failure(&sink, silent(2)).await;
    assert!(
        !again.maybe_sent && again.text.contains("was not called"),
        "{}",
        again.text
    );
}

#[tokio::test]
async fn connections_to_one_server_are_shared_and_bounded() {
    let urls = Urls::start(|_, _| 204).await;
    let sink = push(options().connections_per_server(3));
    let many: Vec<Dispatch> = (0..200)
        .map(|n| dispatch(n, Channel::Push, &urls.url(&format!("/{n}"))))
        .collect();
    assert!(publish(&sink, &many).await.iter().all(is_confirmed));
    let calls = urls.calls();
    let peers: BTreeSet<SocketAddr> = calls.iter().map(|call| call.peer).collect();
    assert_eq!(calls.len(), 200);
    assert!(peers.len() <= 3, "{} connections", peers.len());
    sink.close().await;
    let closed = failure(&sink, dispatch(1, Channel::Push, &urls.url("/1"))).await;
    assert_eq!(closed.kind, ErrorKind::Unreachable);
}
