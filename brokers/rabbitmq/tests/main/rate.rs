//! How fast it goes. Not a test:
//! `cargo test --release -p postrider-rabbitmq --test main rate -- --ignored --nocapture`.

use std::time::Instant;

use postrider_core::Sink;
use postrider_rabbitmq::RabbitOptions;
use postrider_testkit::servers::rabbitmq;

use crate::support::{Client, confirm_all, message, numbered, open, publish, queues, to};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn confirmed_publishes_per_second() {
    const BATCH: usize = 100;
    const BATCHES: usize = 200;
    let vhost = rabbitmq::alone().await;
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    for channels in [1, 4, 8, 16] {
        let queue = format!("rate-{channels}");
        let sink = open(
            RabbitOptions::new(vhost.url())
                .channels(channels)
                .declare(queues([queue.as_str()])),
        );
        let address = to("", &queue);
        confirm_all(&sink, &[message("warm", &address)]).await;
        let began = Instant::now();
        let lanes = (0..channels).map(|lane| {
            let (sink, address) = (sink.clone(), address.clone());
            tokio::spawn(async move {
                for n in 0..BATCHES / channels {
                    let mut batch = numbered(&format!("{lane}-{n}-"), BATCH, &address);
                    batch
                        .iter_mut()
                        .for_each(|message| message.body = vec![b'x'; 300].into());
                    assert!(
                        publish(&sink, &batch)
                            .await
                            .iter()
                            .all(|answer| crate::support::kind(answer).is_none())
                    );
                }
            })
        });
        for lane in lanes.collect::<Vec<_>>() {
            lane.await.expect("everything is confirmed");
        }
        let sent = BATCHES / channels * channels * BATCH;
        let rate = sent as f64 / began.elapsed().as_secs_f64();
        println!("{channels} channels, batches of {BATCH}, 300 bytes, quorum queue: {rate:.0}/s");
        sink.close().await;
        client.purge(&queue).await;
    }
}
