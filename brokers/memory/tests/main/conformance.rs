//! The suite that every sink passes.

use std::sync::Arc;

use postrider_core::{Address, BoxFuture, ErrorKind, Sink};
use postrider_memory::MemorySink;
use postrider_testkit::sink::{Arrived, SinkCapabilities, SinkHarness, TestBroker};

postrider_testkit::sink_suite!(Memory);

const NOWHERE: &str = "nowhere";

struct Memory;

impl SinkHarness for Memory {
    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities::default()
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestBroker>> {
        let sink = MemorySink::new();
        sink.refuse_when(|message| {
            (message.address.get("queue") == Some(NOWHERE)).then_some(ErrorKind::AddressNotFound)
        });
        Box::pin(async { Box::new(Broker(sink)) as Box<dyn TestBroker> })
    }
}

struct Broker(MemorySink);

impl TestBroker for Broker {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Sink>> {
        Box::pin(async { Arc::new(self.0.clone()) as Arc<dyn Sink> })
    }

    fn address(&self) -> Address {
        Address::default()
    }

    fn missing_address(&self) -> Option<Address> {
        Some(Address(vec![("queue".to_owned(), NOWHERE.to_owned())]))
    }

    fn arrived(&self) -> BoxFuture<'_, Vec<Arrived>> {
        Box::pin(async {
            let arrived = |message: postrider_core::Message| Arrived {
                event_id: message.event_id.to_string(),
                body: message.body,
                headers: message.headers,
            };
            self.0.messages().into_iter().map(arrived).collect()
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.0.set_reachable(false) })
    }

    fn start(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.0.set_reachable(true) })
    }
}
