//! What a mail server says of one recipient, and what of everybody.

use std::time::Duration;

use postrider_core::{Answer, ErrorKind};
use postrider_notify::{Channel, Dispatch};
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::smtp::{Door, Smtp};
use postrider_testkit::wait::eventually;

use crate::support::{dispatch, email, failure, is_confirmed, mail_server, plain, publish, with};

fn kind(answer: &Answer) -> Option<ErrorKind> {
    match answer {
        Answer::Failed(failure) => Some(failure.kind),
        Answer::Confirmed(_) => None,
    }
}

#[tokio::test]
async fn one_recipients_refusal_stops_nobody_in_its_batch() {
    let server = mail_server(Door::Open).await;
    let sink = email(plain(server.port()));
    let expected = [
        ("good-1@example.com", None),
        ("answer-450@example.com", Some(ErrorKind::AddressRefused)),
        ("not an address", Some(ErrorKind::NotEncodable)),
        ("answer-550@example.com", Some(ErrorKind::Rejected)),
        ("good-2@example.com", None),
        ("data-451@example.com", Some(ErrorKind::AddressRefused)),
        ("data-552@example.com", Some(ErrorKind::TooLarge)),
        ("data-554@example.com", Some(ErrorKind::Rejected)),
        ("good-3@example.com", None),
        ("answer-421@example.com", Some(ErrorKind::Blocked)),
        ("good-4@example.com", Some(ErrorKind::Behind)),
    ];
    let sent: Vec<Dispatch> = expected
        .iter()
        .enumerate()
        .map(|(n, (to, _))| dispatch(n as i64, Channel::Email, to))
        .collect();
    let answers = publish(&sink, &sent).await;
    for ((to, expected), answer) in expected.iter().zip(&answers) {
        assert_eq!(kind(answer), *expected, "{to}: {answer:?}");
        if let Answer::Failed(failure) = answer {
            assert!(
                !failure.maybe_sent && !failure.text.contains("Text"),
                "{failure:?}"
            );
        }
    }
    let mails = eventually("the good ones are there", async || {
        let mails = with(&server, Smtp::mails).await;
        (mails.len() >= 3).then_some(mails)
    })
    .await;
    assert_eq!(mails.len(), 3);
}

/// The connection breaks in the middle of the content: nobody knows whether the server has it.
#[tokio::test]
async fn a_connection_that_is_lost_after_data_is_unclear() {
    let server = mail_server(Door::Open).await;
    let proxy = Proxy::start(server.port()).await.unwrap();
    let sink = email(plain(proxy.port()));
    let first = publish(&sink, &[dispatch(1, Channel::Email, "ann@example.com")]).await;
    assert!(is_confirmed(&first[0]), "{first:?}");
    proxy.cut_after(100_000);
    let large = Dispatch {
        body: "secret words\n".repeat(20_000),
        ..dispatch(2, Channel::Email, "ann@example.com")
    };
    let answers = publish(&sink, &[large, dispatch(3, Channel::Email, "ann@example.com")]).await;
    let Answer::Failed(lost) = &answers[0] else {
        panic!("{answers:?}");
    };
    assert_eq!(
        (lost.kind, lost.maybe_sent),
        (ErrorKind::Unknown, true),
        "{}",
        lost.text
    );
    assert!(!lost.text.contains("secret"));
    assert_eq!(kind(&answers[1]), Some(ErrorKind::Behind), "{answers:?}");
    proxy.cut_after(u64::MAX);
    let after = publish(&sink, &[dispatch(4, Channel::Email, "ann@example.com")]).await;
    assert!(is_confirmed(&after[0]), "{after:?}");
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_in_time() {
    let server = mail_server(Door::Open).await;
    let sink = email(plain(server.port()).timeout(Duration::from_millis(500)));
    with(&server, Smtp::freeze).await;
    let silent = failure(&sink, dispatch(1, Channel::Email, "ann@example.com")).await;
    assert_eq!(
        (silent.kind, silent.maybe_sent),
        (ErrorKind::TimedOut, false),
        "{}",
        silent.text
    );
    with(&server, Smtp::thaw).await;
}

#[tokio::test]
async fn a_batch_that_takes_too_long_goes_on_with_the_next() {
    let server = mail_server(Door::Open).await;
    let sink = email(plain(server.port()).batch_time(Duration::ZERO));
    let answers = publish(&sink, &[dispatch(1, Channel::Email, "ann@example.com")]).await;
    assert_eq!(kind(&answers[0]), Some(ErrorKind::Behind));
}
