//! Mail through a relay, with the server killed in the middle.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postrider_notify::{Channel, Dispatch};
use postrider_testkit::servers::smtp::{Door, Mail, Smtp};
use postrider_testkit::wait::{until, within};

use crate::support::{Carried, dispatch, email, mail_server, plain, with};

const MAILS: i64 = 300;
/// A mail server may take seconds to come back, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_mail_server_that_is_killed_in_the_middle_costs_no_mail() {
    let server = mail_server(Door::Open).await;
    let carried = Carried::by(Channel::Email, Arc::new(email(plain(server.port()))));
    for n in 0..MAILS {
        carried.enqueue(&dispatch(n, Channel::Email, &format!("user-{n}@example.com")));
    }
    within(PATIENCE, "some mail is there", async || {
        (with(&server, Smtp::mails).await.len() > 20).then_some(())
    })
    .await;
    with(&server, Smtp::kill9).await;
    until("the relay has noticed", || carried.heard.openings() > 0).await;
    with(&server, Smtp::start_again).await;
    let arrived = within(PATIENCE, "everything is there", async || {
        let ids: BTreeSet<String> = with(&server, Smtp::mails).await.iter().filter_map(id).collect();
        (ids.len() as i64 == MAILS && carried.is_empty()).then_some(ids)
    })
    .await;
    let all = (0..MAILS).map(|n| Dispatch::id_of(n, Channel::Email));
    assert_eq!(arrived, all.collect());
    let report = carried.stop().await;
    assert_eq!((report.published, report.dead), (MAILS as u64, 0));
}

/// One mailbox that is full for now and one that never was, beside many good ones.
#[tokio::test]
async fn refused_mailboxes_hold_up_nobody_else() {
    let server = mail_server(Door::Open).await;
    let carried = Carried::by(Channel::Email, Arc::new(email(plain(server.port()))));
    for n in 0..60 {
        let to = match n % 10 {
            3 => format!("answer-452-{n}@example.com"),
            7 => format!("answer-550-{n}@example.com"),
            _ => format!("user-{n}@example.com"),
        };
        carried.enqueue(&dispatch(n, Channel::Email, &to));
    }
    within(PATIENCE, "the good ones have their mail", async || {
        (with(&server, Smtp::mails).await.len() == 48).then_some(())
    })
    .await;
    until("the others are parked", || {
        carried.store.with_model(|model, _| model.parked().count() == 12)
    })
    .await;
    assert_eq!(carried.heard.openings(), 0);
    carried.stop().await;
}

/// A server that is killed leaves the beginning of a mail that it never confirmed; the whole of it comes again.
fn id(mail: &Mail) -> Option<String> {
    mail.header("x-postrider-event-id").map(str::to_owned)
}
