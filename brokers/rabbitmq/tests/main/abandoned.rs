//! Calls that nobody waits for any more hand nothing over (the lease may be another relay's by then).

use std::time::Duration;

use postrider_core::{ErrorKind, Message, Sink};
use postrider_rabbitmq::RabbitOptions;
use postrider_testkit::servers::rabbitmq::{self, Vhost};

use crate::support::{Client, confirm_all, kind, message, numbered, open, publish, queues, to, until};

/// More than the network takes while the broker does not read.
fn much(queue: &str) -> Vec<Message> {
    let mut batch = numbered("m", 1_000, &to("", queue));
    for message in &mut batch {
        message.body = vec![b'x'; 60_000].into();
    }
    batch
}

/// Makes a call that the broker does not read, lets it end, lets the broker read, and gives how much arrived.
async fn arrived(vhost: &Vhost, confirm_timeout: Duration, give_up_after: Option<Duration>) -> usize {
    let queue = vhost.named("abandoned");
    let options = RabbitOptions::new(vhost.url()).confirm_timeout(confirm_timeout);
    let sink = open(options.declare(queues([queue.as_str()])));
    confirm_all(&sink, &[message("before", &to("", &queue))]).await;
    tokio::task::block_in_place(|| vhost.memory_alarm(true)).expect("the alarm can be raised");
    let batch = much(&queue);
    let call = publish(&sink, &batch);
    match give_up_after {
        Some(limit) => assert!(tokio::time::timeout(limit, call).await.is_err()),
        None => {
            let answers = call.await;
            let blocked = |answer| kind(answer) == Some(ErrorKind::Blocked);
            assert!(answers.iter().all(blocked), "{:?}", answers.first());
        }
    }
    tokio::task::block_in_place(|| vhost.memory_alarm(false)).expect("the alarm can be ended");
    let limit = Duration::from_secs(10);
    until(&sink, &message("after", &to("", &queue)), None, limit).await;
    // It waits for what is under way.
    sink.close().await;
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    let ids = client.take_ids(&queue).await;
    ids.iter().filter(|id| id.starts_with('m')).count()
}

/// Fault B8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_dropped_or_answered_hands_nothing_over() {
    let vhost = rabbitmq::alone().await;
    let dropped = arrived(&vhost, Duration::from_secs(60), Some(Duration::from_secs(1))).await;
    assert!(
        dropped < 900,
        "{dropped} of 1000 arrived after the call was dropped"
    );
    let answered = arrived(&vhost, Duration::from_secs(1), None).await;
    assert!(
        answered < 900,
        "{answered} of 1000 arrived after the call was answered"
    );
}
