//! A server that takes the content and does not answer: each further attempt may be another mail to a person.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_core::{Answer, Class, ErrorKind};
use postrider_notify::Channel;
use postrider_testkit::wait::{eventually, until};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::{Carried, dispatch, email, is_confirmed, plain, publish};

/// What a server does with content for addresses that begin with `odd`. It takes that of others.
#[derive(Clone)]
enum Odd {
    /// Closes the connection.
    Close,
    /// Answers when this is true.
    Wait(watch::Receiver<bool>),
}

/// A server that counts the contents that it was handed for odd addresses.
struct Server {
    port: u16,
    taken: Arc<AtomicUsize>,
}

impl Server {
    async fn start(odd: Odd) -> Server {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&taken);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (odd, counted) = (odd.clone(), Arc::clone(&counted));
                tokio::spawn(async move { talk(stream, odd, &counted).await });
            }
        });
        Server { port, taken }
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }
}

/// One connection; None at its end.
async fn talk(stream: TcpStream, mut odd: Odd, taken: &AtomicUsize) -> Option<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let (mut is_odd, mut in_content) = (false, false);
    write.write_all(b"220 here\r\n").await.ok()?;
    loop {
        let line = lines.next_line().await.ok()??;
        let answer = match line.get(..4).unwrap_or(&line) {
            "." if in_content => {
                in_content = false;
                if is_odd {
                    taken.fetch_add(1, Ordering::SeqCst);
                    match &mut odd {
                        Odd::Close => return None,
                        Odd::Wait(open) => drop(open.wait_for(|open| *open).await.ok()?),
                    }
                }
                "250 taken"
            }
            _ if in_content => continue,
            "EHLO" => "250-here\r\n250 SMTPUTF8",
            "MAIL" if line.contains("SMTPUTF8") => "553 5.6.7 not such addresses",
            "RCPT" => {
                is_odd = line.contains("<odd");
                "250 fine"
            }
            "DATA" => {
                in_content = true;
                "354 go on"
            }
            _ => "250 fine",
        };
        write.write_all(format!("{answer}\r\n").as_bytes()).await.ok()?;
    }
}

/// The server is well for others; it is not, and nobody else's mail is about.
#[tokio::test]
async fn mail_that_may_have_been_taken_has_an_end_and_opens_no_circuit() {
    for others in [20, 0] {
        let server = Server::start(Odd::Close).await;
        let carried = Carried::by(Channel::Email, Arc::new(email(plain(server.port))));
        carried.enqueue(&dispatch(1, Channel::Email, "odd@example.com"));
        for n in 0..others {
            carried.enqueue(&dispatch(2 + n, Channel::Email, &format!("user-{n}@example.com")));
        }
        until("it is given up", || {
            carried.store.with_model(|model, _| {
                let mut parked = model.parked();
                parked.next().is_some_and(|one| one.dead) && model.queued().next().is_none()
            })
        })
        .await;
        let failure = carried.store.with_model(|model, _| {
            let parked = model.parked().next().expect("it is dead");
            (parked.maybe_sent, parked.failure.clone())
        });
        assert!(failure.0, "{failure:?}");
        assert!((5..=8).contains(&server.taken()), "{} mails", server.taken());
        assert_eq!(carried.heard.openings(), 0);
        let report = carried.stop().await;
        assert_eq!((report.published, report.dead), (others as u64, 1));
    }
}

#[tokio::test]
async fn each_attempt_is_the_deliverys_own_and_the_last_is_a_dead_letter() {
    let server = Server::start(Odd::Close).await;
    let sink = email(plain(server.port));
    let odd = [dispatch(1, Channel::Email, "odd@example.com")];
    for n in 1..=8 {
        let answers = publish(&sink, &odd).await;
        let Answer::Failed(failure) = &answers[0] else {
            panic!("{answers:?}")
        };
        assert!(
            failure.maybe_sent && failure.text.contains("may have been sent"),
            "{failure:?}"
        );
        match n {
            8 => assert_eq!(failure.kind, ErrorKind::Unanswered),
            _ => assert_eq!(failure.kind.policy().class, Class::Rejected, "{failure:?}"),
        }
    }
    assert_eq!(server.taken(), 8);
}

/// One that says that it takes addresses beyond ASCII, and does not: nobody else waits for that.
#[tokio::test]
async fn a_refusal_of_letters_beyond_ascii_is_that_recipients() {
    let server = Server::start(Odd::Close).await;
    let batch = [
        dispatch(1, Channel::Email, "zoë@example.com"),
        dispatch(2, Channel::Email, "ann@example.com"),
    ];
    let answers = publish(&email(plain(server.port)), &batch).await;
    assert!(
        matches!(&answers[0], Answer::Failed(failure) if failure.kind == ErrorKind::Rejected),
        "{answers:?}"
    );
    assert!(is_confirmed(&answers[1]), "{answers:?}");
}

/// A server that looks into each mail for longer than a call may take.
#[tokio::test]
async fn an_answer_that_comes_late_is_taken_and_the_mail_is_not_sent_again() {
    let (open, wait) = watch::channel(false);
    let server = Server::start(Odd::Wait(wait)).await;
    let sink = email(plain(server.port).timeout(Duration::from_millis(300)));
    let batch = [
        dispatch(1, Channel::Email, "odd@example.com"),
        dispatch(2, Channel::Email, "ann@example.com"),
    ];
    let answers = publish(&sink, &batch).await;
    assert!(
        matches!(&answers[0], Answer::Failed(failure) if failure.maybe_sent),
        "{answers:?}"
    );
    let answers = publish(&sink, &batch).await;
    assert!(
        !is_confirmed(&answers[0]) && is_confirmed(&answers[1]),
        "{answers:?}"
    );
    open.send(true).unwrap();
    eventually("the answer is heard", async || {
        let answers = publish(&sink, &batch[..1]).await;
        is_confirmed(&answers[0]).then_some(())
    })
    .await;
    assert_eq!(server.taken(), 1);
}
