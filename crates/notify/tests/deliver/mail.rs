//! Mail that a server took, read back.

use std::sync::Arc;

use postrider_core::{Class, ErrorKind, Sink};
use postrider_notify::deliver::{EmailError, EmailOptions, EmailSink, Security};
use postrider_notify::{Channel, Dispatch};
use postrider_testkit::servers::smtp::{Door, Mail, PASSWORD, Smtp, USER};
use postrider_testkit::wait::eventually;

use crate::support::{FROM, dispatch, email, failure, is_confirmed, mail_server, plain, publish, with};

async fn mails(server: &Arc<Smtp>, count: usize) -> Vec<Mail> {
    eventually("the mail can be read", async || {
        let mails = with(server, Smtp::mails).await;
        (mails.len() >= count).then_some(mails)
    })
    .await
}

#[tokio::test]
async fn a_mail_arrives_with_all_that_it_needs() {
    let server = mail_server(Door::Open).await;
    let sink = email(
        plain(server.port()).unsubscribe("https://shop.example/off?user={user_id}&category={category}"),
    );
    let sent = Dispatch {
        user_id: "ü 1&x=2".to_owned(),
        title: "Grüße 😀".to_owned(),
        body: "Line one\nLine two é\n.\nafter a full stop".to_owned(),
        html: Some("<p>Grüße</p>".to_owned()),
        ..dispatch(7, Channel::Email, "ann@example.com")
    };
    assert!(is_confirmed(&publish(&sink, &[sent]).await[0]));
    let mail = mails(&server, 1).await.remove(0);
    assert_eq!(
        (mail.to, mail.names),
        (vec!["ann@example.com".to_owned()], vec!["Ann".to_owned()])
    );
    assert_eq!(mail.subject, "Grüße 😀");
    assert_eq!(mail.text.trim_end(), "Line one\nLine two é\n.\nafter a full stop");
    assert!(mail.html.unwrap().contains("<p>Grüße</p>"));
    let head = mail.raw.split("\r\n\r\n").next().unwrap().replace("\r\n ", " ");
    for line in [
        "Message-ID: <notification-7-email@shop.example>",
        "X-Postrider-Event-Id: notification-7-email",
        "List-Unsubscribe: <https://shop.example/off?user=%C3%BC%201%26x%3D2&category=orders>",
        "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
        "Auto-Submitted: auto-generated",
    ] {
        assert!(head.lines().any(|got| got == line), "{line} is not in\n{head}");
    }
    assert!(head.contains("multipart/alternative") && head.contains("\r\nDate: "));
}

#[tokio::test]
async fn hostile_names_and_titles_stay_what_they_are() {
    let server = mail_server(Door::Open).await;
    let sink = email(plain(server.port()));
    let hostile = [
        "Eve\r\nBcc: victim@example.com",
        "Eve\nSubject: other\n\nother body",
        "\"Eve\" <victim@example.com>, ",
        "=?utf-8?q?Eve=0D=0ABcc:_victim@example.com?=",
        "\u{202e}moc.knab",
        "Eve\0\u{1b}[31m",
    ];
    let sent: Vec<Dispatch> = hostile
        .iter()
        .enumerate()
        .map(|(n, text)| Dispatch {
            name: (*text).to_owned(),
            title: (*text).to_owned(),
            body: format!("{text}\r\n.\r\nMAIL FROM:<victim@example.com>\r\n"),
            ..dispatch(n as i64, Channel::Email, "ann@example.com")
        })
        .collect();
    assert!(publish(&sink, &sent).await.iter().all(is_confirmed));
    let mails = mails(&server, hostile.len()).await;
    assert_eq!(mails.len(), hostile.len(), "one mail for each, and no other");
    for mail in mails {
        assert_eq!(mail.to, ["ann@example.com"], "{}", mail.raw);
        for header in ["bcc", "cc"] {
            assert_eq!(mail.headers.get(header), None, "{}", mail.raw);
        }
        for header in ["subject", "to", "from", "message-id"] {
            assert!(
                mail.header(header).is_some(),
                "{header} is there once: {}",
                mail.raw
            );
        }
        assert!(
            !mail.subject.contains(['\r', '\n', '\u{202e}', '\0']),
            "{:?}",
            mail.subject
        );
        assert!(
            mail.text.contains("MAIL FROM"),
            "the text is whole: {:?}",
            mail.text
        );
    }
}

fn locked(server: &Smtp) -> EmailOptions {
    EmailOptions::new("localhost", FROM)
        .port(server.port())
        .ca_file(&server.authority().authority)
        .login(USER, PASSWORD.into())
}

#[tokio::test]
async fn a_protected_connection_and_a_login() {
    for (door, security) in [(Door::Login, Security::StartTls), (Door::Tls, Security::Tls)] {
        let server = mail_server(door).await;
        let sink = email(locked(&server).security(security));
        let answers = publish(&sink, &[dispatch(1, Channel::Email, "ann@example.com")]).await;
        assert!(is_confirmed(&answers[0]), "{answers:?}");
        assert_eq!(mails(&server, 1).await.len(), 1);
        let wrong = email(locked(&server).security(security).login(USER, "hunter2".into()));
        let refused = failure(&wrong, dispatch(2, Channel::Email, "ann@example.com")).await;
        assert_eq!(refused.kind, ErrorKind::Credentials, "{}", refused.text);
        assert!(!refused.text.contains("hunter2") && !format!("{wrong:?}").contains("hunter2"));
        let stranger = EmailOptions::new("localhost", FROM)
            .port(server.port())
            .security(security);
        let stranger = failure(&email(stranger), dispatch(3, Channel::Email, "ann@example.com")).await;
        assert_eq!(
            stranger.kind,
            ErrorKind::Unreachable,
            "its certificate is nobody's: {}",
            stranger.text
        );
    }
}

#[tokio::test]
async fn a_server_that_wants_a_login_and_gets_none_is_a_matter_of_credentials() {
    let server = mail_server(Door::Login).await;
    let mut options = locked(&server);
    options.user = None;
    let refused = failure(&email(options), dispatch(1, Channel::Email, "ann@example.com")).await;
    assert_eq!(refused.kind, ErrorKind::Credentials, "{}", refused.text);
    // A server that offers no protection, or not the one that was asked for, gets nothing.
    let wrong = locked(&server).security(Security::Tls);
    let refused = failure(&email(wrong), dispatch(1, Channel::Email, "ann@example.com")).await;
    assert_eq!(
        refused.kind.policy().class,
        Class::Unavailable,
        "{}",
        refused.text
    );
}

#[test]
fn mail_does_not_leave_the_machine_in_the_clear() {
    let plain = |host: &str| EmailOptions::new(host, FROM).security(Security::None);
    for host in ["localhost", "127.0.0.1", "::1"] {
        assert!(EmailSink::new(plain(host)).is_ok(), "{host}");
    }
    for host in ["mail.example.com", "10.0.0.1", "localhost.example.com"] {
        assert!(
            matches!(EmailSink::new(plain(host)), Err(EmailError::Plain(_))),
            "{host}"
        );
        assert!(EmailSink::new(plain(host).allow_plain(true)).is_ok(), "{host}");
    }
    let missing = EmailOptions::new("mail.example.com", FROM).ca_file("/no/such/file");
    assert!(matches!(EmailSink::new(missing), Err(EmailError::CaFile { .. })));
}

#[tokio::test]
async fn nobody_there_is_unreachable_and_connecting_says_nothing_worse() {
    let port = std::net::TcpListener::bind(("127.0.0.1", 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let sink = email(plain(port));
    sink.connect().await;
    let refused = failure(&sink, dispatch(1, Channel::Email, "ann@example.com")).await;
    assert_eq!(
        (refused.kind, refused.maybe_sent),
        (ErrorKind::Unreachable, false)
    );
}
