//! Declarations that the broker does not take.

use std::time::Duration;

use postrider_core::Answer;
use postrider_rabbitmq::{Exchange, RabbitOptions};
use postrider_testkit::servers::rabbitmq;

use crate::support::{confirm_all, message, open, publish, queues, to, until};

/// RabbitMQ ends the whole connection over a kind of exchange that it does not know. The reason is told in its own
/// words, and what can be used is used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declaration_that_ends_the_connection_is_told_and_left_out() {
    let vhost = rabbitmq::shared().await;
    let queue = vhost.named("declared-behind-a-slip");
    let mut topology = queues([queue.as_str()]);
    topology.exchanges = ["first", "second"]
        .map(|name| Exchange {
            name: vhost.named(name),
            kind: "topik".to_owned(),
        })
        .to_vec();
    let sink = open(RabbitOptions::new(vhost.url()).declare(topology));
    let batch = [message("one", &to("", &queue))];
    let answers = publish(&sink, &batch).await;
    let Answer::Failed(failure) = &answers[0] else {
        panic!("the first connection ends: {answers:?}");
    };
    assert!(
        failure.text.contains("unknown exchange type 'topik'"),
        "{failure:?}"
    );
    assert!(failure.text.contains(&vhost.named("first")), "{failure:?}");
    until(&sink, &batch[0], None, Duration::from_secs(5)).await;
    confirm_all(&sink, &[message("two", &to("", &queue))]).await;
}
