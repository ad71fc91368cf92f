//! A broker that takes nothing, lets nobody in, or says nothing (B1, B8, B27).

use std::time::{Duration, Instant};

use postrider_core::{ErrorKind, Sink};
use postrider_rabbitmq::RabbitOptions;
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::rabbitmq;

use crate::support::{
    Client, assert_all, confirm_all, kind, message, numbered, open, publish, queues, to, until,
};

/// Fault B8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_memory_alarm_blocks_and_ends() {
    let vhost = rabbitmq::alone().await;
    let queue = vhost.named("alarm");
    let options = RabbitOptions::new(vhost.url()).confirm_timeout(Duration::from_secs(2));
    let sink = open(options.declare(queues([queue.as_str()])));
    let address = to("", &queue);
    confirm_all(&sink, &numbered("before", 5, &address)).await;
    tokio::task::block_in_place(|| vhost.memory_alarm(true)).expect("the alarm can be raised");
    // The first batch is what makes the broker say so; it waits no longer than a confirm may take.
    let began = Instant::now();
    let during = numbered("during", 5, &address);
    assert_all(&publish(&sink, &during).await, ErrorKind::Blocked);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    // From then on nothing is handed over.
    let began = Instant::now();
    assert_all(
        &publish(&sink, &numbered("refused", 5, &address)).await,
        ErrorKind::Blocked,
    );
    assert!(
        began.elapsed() < Duration::from_millis(500),
        "{:?}",
        began.elapsed()
    );
    tokio::task::block_in_place(|| vhost.memory_alarm(false)).expect("the alarm can be ended");
    until(&sink, &message("after", &address), None, Duration::from_secs(5)).await;
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    let ids = client.take_ids(&queue).await;
    assert!(ids.iter().all(|id| !id.starts_with("refused")), "{ids:?}");
    sink.close().await;
}

/// Fault B27.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_about_credentials() {
    let vhost = rabbitmq::private().await;
    let url = vhost.url_by("postrider:wrong", vhost.port());
    let sink = open(RabbitOptions::new(url));
    let answers = publish(&sink, &numbered("m", 3, &to("", "q"))).await;
    for answer in answers {
        assert_eq!(kind(&answer), Some(ErrorKind::Credentials), "{answer:?}");
        assert!(!format!("{answer:?}").contains("wrong"));
    }
    sink.close().await;
}

/// Fault B27. A login that is changed or revoked while it is used: said to be about credentials, nothing is sent, and
/// it flows by itself when the login is right again, on either side, without a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_is_changed_or_revoked_may_be_set_right() {
    const USER: &str = "rotated";
    let vhost = rabbitmq::private().await;
    let proxy = Proxy::start(vhost.port()).await.expect("a proxy starts");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    let set = |password: &str| vhost.user(USER, password).expect("a user can be changed");
    set("first");
    std::fs::write(&file, "first\n").expect("written");
    let options = RabbitOptions::new(vhost.url_by(USER, proxy.port())).password_file(&file);
    let queue = vhost.named("rotated");
    let sink = open(options.declare(queues([queue.as_str()])));
    let address = to("", &queue);
    confirm_all(&sink, &numbered("before", 5, &address)).await;

    let limit = Duration::from_secs(10);
    let refused = Some(ErrorKind::Credentials);
    // The broker knows another password, which the file does not have yet.
    set("second");
    proxy.cut();
    until(&sink, &message("changed", &address), refused, limit).await;
    std::fs::write(&file, "second\n").expect("written");
    until(&sink, &message("new", &address), None, limit).await;
    // The broker throws out a user who is gone, and lets it in again when it is back.
    vhost.remove_user(USER).expect("a user can be removed");
    until(&sink, &message("revoked", &address), refused, limit).await;
    set("second");
    until(&sink, &message("back", &address), None, limit).await;
    // A file that is missing is about credentials too, and named.
    std::fs::remove_file(&file).expect("removed");
    proxy.cut();
    until(&sink, &message("missing", &address), refused, limit).await;
    let answer = format!("{:?}", publish(&sink, &numbered("m", 1, &address)).await);
    assert!(answer.contains("password cannot be read"), "{answer}");
    std::fs::write(&file, "second").expect("written");
    until(&sink, &message("there", &address), None, limit).await;
    sink.close().await;
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    let mut ids = client.take_ids(&queue).await;
    // The broker may take a message on the old connection before it has thrown its user out.
    ids.retain(|id| id != "revoked");
    assert_eq!(ids[5..], ["new", "back", "there"], "{ids:?}");
}

/// Fault B27. The same for a url that is kept in a file, password and all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_is_rewritten_in_its_file_is_used() {
    const USER: &str = "moved";
    let vhost = rabbitmq::private().await;
    let proxy = Proxy::start(vhost.port()).await.expect("a proxy starts");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("url");
    let set = |password: &str| vhost.user(USER, password).expect("a user can be changed");
    let url = |password: &str| vhost.url_by(&format!("{USER}:{password}"), proxy.port());
    set("first");
    std::fs::write(&file, url("first") + "\n").expect("written");
    let queue = vhost.named("moved");
    let options = RabbitOptions::new(url("wrong")).url_file(&file);
    let sink = open(options.declare(queues([queue.as_str()])));
    let address = to("", &queue);
    confirm_all(&sink, &numbered("before", 5, &address)).await;
    let (limit, refused) = (Duration::from_secs(10), Some(ErrorKind::Credentials));
    set("second");
    proxy.cut();
    until(&sink, &message("changed", &address), refused, limit).await;
    std::fs::write(&file, "not a url").expect("written");
    until(&sink, &message("bad", &address), refused, limit).await;
    std::fs::write(&file, url("second")).expect("written");
    until(&sink, &message("new", &address), None, limit).await;
    sink.close().await;
}

/// Fault B1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_at_the_address_is_answered_at_once() {
    let port = {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.local_addr().expect("an address").port()
    };
    let sink = open(RabbitOptions::new(format!("amqp://127.0.0.1:{port}/")));
    for _ in 0..5 {
        let began = Instant::now();
        let answers = publish(&sink, &numbered("m", 3, &to("", "q"))).await;
        assert_all(&answers, ErrorKind::Unreachable);
        assert!(began.elapsed() < Duration::from_secs(1));
    }
    sink.close().await;
}

/// Faults B1 and B20.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_broker_times_out_and_is_found_again() {
    let vhost = rabbitmq::alone().await;
    let queue = vhost.named("frozen");
    let options = RabbitOptions::new(vhost.url())
        .confirm_timeout(Duration::from_secs(1))
        .connect_timeout(Duration::from_secs(1));
    let sink = open(options.declare(queues([queue.as_str()])));
    let address = to("", &queue);
    confirm_all(&sink, &numbered("before", 5, &address)).await;
    vhost.freeze().expect("the server can be frozen");
    let first = publish(&sink, &numbered("during", 5, &address)).await;
    assert_all(&first, ErrorKind::TimedOut);
    let second = publish(&sink, &numbered("still", 5, &address)).await;
    assert_all(&second, ErrorKind::Unreachable);
    vhost.thaw().expect("the server can be thawed");
    until(&sink, &message("after", &address), None, Duration::from_secs(5)).await;
    sink.close().await;
}
