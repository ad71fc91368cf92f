//! Encrypted connections are verified, always.

use postrider_core::{ErrorKind, Sink};
use postrider_rabbitmq::{RabbitError, RabbitOptions, RabbitSink};
use postrider_testkit::servers::rabbitmq;

use crate::support::{confirm_all, kind, numbered, open, publish, queues, to};

/// Fault H15.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_authority_is_trusted_and_a_wrong_name_is_not() {
    let vhost = rabbitmq::private().await;
    let authority = &vhost.authority().authority;
    let batch = numbered("m", 10, &to("", "tls"));

    let trusting = RabbitOptions::new(vhost.url_tls("localhost")).ca_file(authority);
    let sink = open(trusting.declare(queues(["tls"])));
    confirm_all(&sink, &batch).await;
    sink.close().await;

    // The certificate is for another name, or of somebody whom nobody here knows.
    let wrong_name = RabbitOptions::new(vhost.url_tls("127.0.0.1")).ca_file(authority);
    let stranger = RabbitOptions::new(vhost.url_tls("localhost"));
    for options in [wrong_name, stranger] {
        // A machine without any authorities of its own refuses earlier, which is as good.
        let Ok(sink) = RabbitSink::new(options) else {
            continue;
        };
        for answer in publish(&sink, &batch).await {
            assert_eq!(kind(&answer), Some(ErrorKind::Unreachable), "{answer:?}");
            let text = format!("{answer:?}");
            assert!(text.contains("certificate"), "{text}");
        }
        sink.close().await;
    }
}

#[test]
fn a_file_without_authorities_is_refused() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let options = RabbitOptions::new("amqps://mq/").ca_file(file.path());
    let error = RabbitSink::new(options).expect_err("nothing would be trusted");
    assert!(matches!(error, RabbitError::Authorities { .. }), "{error}");
}
