//! The two files: that of the shop with its relay, and that of the service that notifies.

use super::house::SECRET;

/// The exchange and the queues of document 000, with a place for what listeners reject.
const PRESET: &str = "declare = true\npreset = \"notifications\"\n";
/// A relay that was killed is followed by the next one after this time.
const LEASE: &str = "lease = \"4s\"";

/// Layer 1: an ordinary relay.
pub(super) fn shop(database: &str, rabbit: &str) -> String {
    format!(
        "[outbox.shop]\nurl = \"{database}\"\n\n[broker.rabbit]\nurl = \"{rabbit}\"\n\n\
         [broker.rabbit.rabbitmq]\n{PRESET}\n\
         [[route]]\nto = [{{ broker = \"rabbit\", exchange = \"notifications.exchange\", \
         routing_key = \"notification.{{aggregate_type|lower}}\" }}]\n\n\
         [relay]\n{LEASE}\n\n[log]\nformat = \"json\"\n"
    )
}

/// Layers 2 and 3: listeners, a board of its own, and the channels. `price` is what the template of a priced order
/// says, with which one part has its trouble. Nobody takes mail: where some is to be sent, its outbox is paused.
pub(super) fn notes(database: &str, rabbit: &str, port: u16, price: &str) -> String {
    let head = format!(
        "[outbox.notes]\nurl = \"{database}\"\n\n[broker.rabbit]\nurl = \"{rabbit}\"\n\n\
         [broker.rabbit.rabbitmq]\n{PRESET}\n\
         [notify]\noutbox = \"notes\"\nlisten = \"127.0.0.1:{port}\"\nsecret = \"{SECRET}\"\nbroker = \"rabbit\"\n\n\
         [notify.email]\nurl = \"smtp://127.0.0.1:1\"\nfrom = \"Shop <shop@example.com>\"\n\n\
         [notify.push]\nsecret = \"a-secret-that-is-only-for-tests\"\nallow_private = true\n\n\
         [log]\nformat = \"json\"\n\n"
    );
    let priced = format!("Order for {price}");
    [
        head,
        workflow(
            "order-placed",
            "OrderPlaced",
            "orders",
            &["in_app", "push"],
            "",
            "Order for {{ payload.name }}",
        ),
        workflow("order-priced", "OrderPriced", "orders", &["in_app"], "", &priced),
        workflow(
            "followed",
            "UserFollowed",
            "social",
            &["in_app"],
            "resource = \"{{ payload.followerId }}\"\nperiod = \"1d\"\n",
            "{{ payload.followerId }} follows you",
        ),
        workflow(
            "mentioned",
            "MentionCreated",
            "social",
            &["in_app"],
            "resource = \"{{ payload.contextId }}\"\n",
            "You were mentioned",
        ),
        workflow(
            "commented",
            "CommentCreated",
            "social",
            &["in_app"],
            "resource = \"{{ payload.commentId }}\"\n",
            "A comment on {{ payload.postId }}",
        ),
        workflow(
            "announced",
            "Announced",
            "news",
            &["in_app", "email"],
            "",
            "{{ recipient.name }}, {{ payload.subject }}",
        ),
        workflow(
            "news",
            "NewsPublished",
            "news",
            &["in_app"],
            "",
            "News for {{ recipient.name }}",
        ),
    ]
    .concat()
}

fn workflow(name: &str, event: &str, category: &str, channels: &[&str], more: &str, title: &str) -> String {
    let listed: Vec<String> = channels.iter().map(|channel| format!("\"{channel}\"")).collect();
    let words = channels.iter().map(|channel| {
        format!(
            "[notify.workflow.templates.{channel}.en]\ntitle = \"{title}\"\nbody = \"{event} {{{{ event.id }}}}\"\n"
        )
    });
    format!(
        "[[notify.workflow]]\nname = \"{name}\"\nevents = [\"{event}\"]\ncategory = \"{category}\"\n\
         channels = [{}]\n{more}locale = \"en\"\n{}\n",
        listed.join(", "),
        words.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_reads_as_one_would_write_it() {
        let text = workflow("news", "NewsPublished", "news", &["in_app"], "", "News");
        assert_eq!(
            text,
            "[[notify.workflow]]\nname = \"news\"\nevents = [\"NewsPublished\"]\ncategory = \"news\"\n\
             channels = [\"in_app\"]\nlocale = \"en\"\n[notify.workflow.templates.in_app.en]\ntitle = \"News\"\n\
             body = \"NewsPublished {{ event.id }}\"\n\n"
        );
    }
}
