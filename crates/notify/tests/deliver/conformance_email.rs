//! The suite that every sink passes, on a mail server.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Address, BoxFuture, Sink};
use postrider_notify::Channel;
use postrider_testkit::servers::smtp::{Door, Mail, Smtp};
use postrider_testkit::sink::{Arrived, Feature, SinkCapabilities, SinkHarness, TestBroker};

use crate::support::{email, mail_server, plain, with};
use crate::wrapped::{Wrapped, unwrap};

postrider_testkit::sink_suite!(Mails);

struct Mails;

impl SinkHarness for Mails {
    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities {
            lacks: vec![
                (
                    Feature::Headers,
                    "a mail has its own headers, and none of the producer's",
                ),
                (
                    Feature::MissingAddress,
                    "a mailbox that is not there is a rejection: the server answers for each by itself",
                ),
            ],
        }
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestBroker>> {
        Box::pin(async { Box::new(PostOffice(mail_server(Door::Open).await)) as Box<dyn TestBroker> })
    }
}

struct PostOffice(Arc<Smtp>);

impl TestBroker for PostOffice {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Sink>> {
        // The suite gives 2,000 in one batch, which a relay does not.
        let patient = plain(self.0.port())
            .batch_time(Duration::from_secs(170))
            .timeout(Duration::from_secs(60));
        let sink = Wrapped {
            sink: email(patient),
            channel: Channel::Email,
            to: |_| "ann@suite.example".to_owned(),
            base: String::new(),
        };
        Box::pin(async { Arc::new(sink) as Arc<dyn Sink> })
    }

    fn address(&self) -> Address {
        Address(vec![("recipient".to_owned(), "ann".to_owned())])
    }

    fn arrived(&self) -> BoxFuture<'_, Vec<Arrived>> {
        Box::pin(async {
            let mails = with(&self.0, Smtp::mails).await;
            mails.iter().filter_map(arrived).collect()
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(with(&self.0, Smtp::kill9))
    }

    fn start(&self) -> BoxFuture<'_, ()> {
        Box::pin(with(&self.0, Smtp::start_again))
    }
}

/// A server that is killed leaves the beginning of a mail that it never confirmed; the whole of it comes again.
fn arrived(mail: &Mail) -> Option<Arrived> {
    Some(Arrived {
        event_id: mail.header("x-postrider-event-id")?.to_owned(),
        body: unwrap(&mail.text)?,
        headers: Vec::new(),
    })
}
