//! The suite that every source passes.

use std::sync::Arc;

use postrider_core::{Answer, BoxFuture, Message, Sink, Source};
use postrider_memory::MemorySink;
use postrider_testkit::source::{Feature, SourceCapabilities, SourceHarness, TestQueue};

postrider_testkit::source_suite!(Memory);

struct Memory;

impl SourceHarness for Memory {
    fn capabilities(&self) -> SourceCapabilities {
        SourceCapabilities {
            lacks: vec![
                (Feature::Foreign, "only messages of ours can be published"),
                (Feature::Prefetch, "whoever receives says how many it holds"),
                (Feature::Cut, "there is no connection"),
                (
                    Feature::SettleFault,
                    "nothing stands between a verdict and the queue",
                ),
                (Feature::Restart, "it ends with the process"),
            ],
            ..SourceCapabilities::default()
        }
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestQueue>> {
        Box::pin(async { Box::new(Queue(MemorySink::new())) as Box<dyn TestQueue> })
    }
}

struct Queue(MemorySink);

impl TestQueue for Queue {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Source>> {
        Box::pin(async { Arc::new(self.0.source()) as Arc<dyn Source> })
    }

    fn put(&self, messages: Vec<Message>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let answers = self.0.publish(messages.into()).await;
            assert!(
                answers
                    .iter()
                    .all(|answer| matches!(answer, Answer::Confirmed(_)))
            );
        })
    }

    fn rejected(&self) -> BoxFuture<'_, Vec<String>> {
        let rejected = self.0.rejected();
        Box::pin(async move {
            rejected
                .iter()
                .map(|message| message.event_id.to_string())
                .collect()
        })
    }
}
