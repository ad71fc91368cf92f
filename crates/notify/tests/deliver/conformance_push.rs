//! The suite that every sink passes, on a url.

use std::sync::Arc;

use percent_encoding::percent_decode_str;
use postrider_core::{Address, BoxFuture, Sink};
use postrider_notify::Channel;
use postrider_notify::deliver::PushSink;
use postrider_testkit::sink::{Arrived, Feature, SinkCapabilities, SinkHarness, TestBroker};

use crate::urls::{Call, Urls, options};
use crate::wrapped::{Wrapped, unwrap};

postrider_testkit::sink_suite!(Hooks);

struct Hooks;

impl SinkHarness for Hooks {
    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities {
            lacks: vec![
                (
                    Feature::Headers,
                    "a url is told the notification, and none of the producer's headers",
                ),
                (
                    Feature::Restart,
                    "a url that is away is one recipient's trouble and never the channel's: see push_relayed",
                ),
            ],
        }
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestBroker>> {
        Box::pin(async {
            let urls = Urls::start(|call, _| if call.path == "/missing" { 404 } else { 204 }).await;
            Box::new(Hook(urls)) as Box<dyn TestBroker>
        })
    }
}

struct Hook(Urls);

fn to(recipient: &str) -> Address {
    Address(vec![("recipient".to_owned(), recipient.to_owned())])
}

impl TestBroker for Hook {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Sink>> {
        let sink = Wrapped {
            sink: PushSink::new(options()).unwrap(),
            channel: Channel::Push,
            to: |recipient| format!("/{recipient}"),
            base: self.0.base(),
        };
        Box::pin(async { Arc::new(sink) as Arc<dyn Sink> })
    }

    fn address(&self) -> Address {
        to("ann")
    }

    fn missing_address(&self) -> Option<Address> {
        Some(to("missing"))
    }

    fn arrived(&self) -> BoxFuture<'_, Vec<Arrived>> {
        Box::pin(async {
            let calls = self.0.calls();
            calls
                .iter()
                .filter(|call| call.path == "/ann")
                .map(arrived)
                .collect()
        })
    }
}

fn arrived(call: &Call) -> Arrived {
    let id = percent_decode_str(call.header("webhook-id"))
        .decode_utf8()
        .unwrap();
    let document = call.json();
    Arrived {
        event_id: id.into_owned(),
        body: unwrap(document["body"].as_str().unwrap()).unwrap(),
        headers: Vec::new(),
    }
}
