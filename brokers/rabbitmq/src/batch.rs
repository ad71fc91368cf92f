//! One batch on one channel.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{Channel, PublisherConfirm};
use tokio_util::sync::CancellationToken;

use crate::connect::Live;
use crate::encode::Prepared;
use crate::returns::Outcome;

/// Messages handed to the client before their writing is waited for. When the broker closes a channel, what the client
/// still holds for it is written all the same, and the broker closes the whole connection for that: so it never holds
/// much. One at a time would wake the client's thread for every message.
const STRIDE: usize = 32;

/// A channel that confirms.
pub(crate) async fn open(live: &Live) -> lapin::Result<Channel> {
    let channel = live.connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok(channel)
}

/// Publishes all messages in order and waits for what the broker says about each.
///
/// Nothing else may use the channel until this has returned: a returned message is found at any confirm of the batch.
/// That is why a batch that is over early stops only between strides, has no outcomes for what was not handed over, and
/// still waits for all that was.
pub(crate) async fn send(
    channel: &Channel,
    messages: Vec<Prepared>,
    over: &CancellationToken,
) -> Vec<Outcome> {
    let mut handed = Vec::with_capacity(messages.len());
    let mut messages = messages.into_iter();
    while !over.is_cancelled() {
        let stride: Vec<_> = messages
            .by_ref()
            .take(STRIDE)
            .map(|message| Box::pin(publish(channel, message)))
            .collect();
        if stride.is_empty() {
            break;
        }
        hand_over(stride, &mut handed).await;
    }
    let mut outcomes = Vec::with_capacity(handed.len());
    for confirm in handed {
        outcomes.push(match confirm {
            Ok(confirm) => confirm.await,
            Err(error) => Err(error),
        });
    }
    outcomes
}

async fn publish(channel: &Channel, message: Prepared) -> lapin::Result<PublisherConfirm> {
    let options = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    let Prepared {
        exchange,
        routing_key,
        properties,
        body,
    } = message;
    channel
        .basic_publish(exchange, routing_key, options, &body, properties)
        .await
}

type Publish<F> = Pin<Box<F>>;

/// The client takes a message at the first poll, so polling in turn is what keeps them in order.
async fn hand_over<F: Future<Output = lapin::Result<PublisherConfirm>>>(
    stride: Vec<Publish<F>>,
    handed: &mut Vec<lapin::Result<PublisherConfirm>>,
) {
    let mut begun = Vec::with_capacity(stride.len());
    for mut publish in stride {
        let first = std::future::poll_fn(|context| Poll::Ready(publish.as_mut().poll(context))).await;
        begun.push((publish, first));
    }
    for (publish, first) in begun {
        handed.push(match first {
            Poll::Ready(confirm) => confirm,
            Poll::Pending => publish.await,
        });
    }
}
