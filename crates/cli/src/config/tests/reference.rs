//! Every key there is, set once in the reference and read here.

use postrider_admin::Thresholds;
use postrider_core::{DeadLetter, Envelope, RetryPolicy};
use postrider_relay::Profile;

use super::*;

/// The reference without the folder that its secret files are relative to.
fn reference() -> Config {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/reference/");
    read(
        &include_str!("../../../reference.toml").replace("\"reference/", &format!("\"{folder}")),
        &[],
    )
    .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_reference_sets_every_key_of_outboxes_and_brokers() {
    let config = reference();
    let orders = &config.outboxes["orders"];
    assert_eq!(orders.place.show(), "sqlite:///var/lib/orders/orders.db");
    assert_eq!(orders.prefix, "shop_outbox");
    assert_eq!(orders.history, Some(secs(30 * 86_400)));
    assert_eq!(orders.dedup, Some(secs(2 * 86_400)));
    assert_eq!(orders.busy_timeout, secs(3));
    let billing = &config.outboxes["billing"];
    let Place::Postgres(postgres) = &billing.place else {
        panic!("{:?}", billing.place);
    };
    assert!(postgres.url.expose().ends_with("//db.internal/billing"));
    assert_eq!(postgres.schema.as_deref(), Some("shop"));
    assert_eq!((postgres.shards, postgres.strict_keys), (Some(64), Some(true)));
    assert!(
        postgres
            .listen_url
            .as_ref()
            .is_some_and(|url| url.expose().ends_with(":5432/billing"))
    );
    assert_eq!(postgres.poll_only, Some(false));
    assert!(
        postgres
            .ca_file
            .as_ref()
            .is_some_and(|file| file.ends_with("ca.pem"))
    );
    assert_eq!(postgres.connect_timeout, Some(secs(5)));
    assert_eq!(postgres.statement_timeout, Some(secs(3)));
    assert_eq!(billing.user.as_deref(), Some("relay"));
    assert_eq!(
        billing.password.as_ref().map(|secret| secret.expose()),
        Some("only-an-example")
    );
    assert_eq!(billing.history, Some(secs(14 * 86_400)), "from [cleanup]");
    let stock = &config.outboxes["stock"];
    assert_eq!(
        stock.password.as_ref().map(|secret| secret.expose()),
        Some("only-an-example")
    );

    assert!(
        matches!(&config.brokers["audit"].kind, Kind::File { path, sync: false } if path.ends_with("audit.jsonl"))
    );
    let rabbit = &config.brokers["rabbit"];
    assert_eq!(rabbit.kind.show(), "amqps://mq.internal/");
    let Kind::RabbitMq(settings) = &rabbit.kind else {
        panic!("a RabbitMQ")
    };
    assert_eq!((settings.channels, settings.prefetch), (Some(4), Some(64)));
    assert_eq!(settings.max_message_bytes, Some(64 << 20));
    assert_eq!(
        (settings.confirm_timeout, settings.connect_timeout),
        (Some(secs(10)), Some(secs(3)))
    );
    assert!(
        settings
            .ca_file
            .as_ref()
            .is_some_and(|file| file.ends_with("ca.pem"))
    );
    let declare = settings.declare.as_ref().expect("declared");
    assert_eq!(declare.preset, Some(Preset::Notifications));
    assert_eq!(declare.exchanges[0].kind.0, "direct");
    let queue = &declare.queues[0];
    assert_eq!(queue.dead_letter_exchange.as_deref(), Some("orders.dead"));
    assert_eq!(queue.dead_letter_routing_key.as_deref(), Some("dead"));
    assert_eq!(
        (queue.single_active_consumer, queue.delivery_limit),
        (true, Some(5))
    );
    assert_eq!(declare.bindings[0].routing_key, "order");
    assert_eq!(rabbit.user.as_deref(), Some("postrider"));
    assert_eq!(
        rabbit.password.as_ref().map(|secret| secret.expose()),
        Some("only-an-example")
    );
    assert_eq!(config.brokers["partner"].kind.show(), "amqps://partner.internal/");
}

#[test]
fn the_reference_sets_every_key_of_inboxes() {
    let config = reference();
    let mailer = &config.inboxes["mailer"];
    let Place::Postgres(postgres) = &mailer.database.place else {
        panic!("{:?}", mailer.database.place);
    };
    assert!(postgres.url.expose().ends_with("//db.internal/mailer"));
    assert_eq!(postgres.schema.as_deref(), Some("mail"));
    assert_eq!(postgres.poll_only, Some(true));
    assert_eq!(postgres.connect_timeout, Some(secs(4)));
    assert!(postgres.ca_file.is_some());
    assert_eq!(mailer.database.user.as_deref(), Some("mailer"));
    assert!(mailer.database.password.is_some());
    assert_eq!(mailer.database.prefix, "seen");
    assert_eq!(mailer.retention, secs(90 * 86_400));
    let local = &config.inboxes["local"];
    assert_eq!(local.database.place.show(), "sqlite:mailer.db");
    assert_eq!(local.database.busy_timeout, secs(2));
    assert_eq!(
        (local.database.prefix.as_str(), local.retention),
        ("inbox", secs(60 * 86_400)),
        "the defaults"
    );
    assert!(config.inboxes["other"].database.password.is_some());
    let shown = config.show();
    assert_eq!(shown["inbox"]["mailer"]["table"], "seen");
    assert_eq!(shown["inbox"]["mailer"]["retention"], "90d");
    assert_eq!(shown["inbox"]["mailer"].get("history"), None);
}

#[test]
fn the_reference_sets_every_key_of_listeners() {
    use postrider_listener::{Order, Replays};
    let config = reference();
    let mails = &config.listeners["mails"];
    assert_eq!(mails.url.host(), "mailer.internal");
    assert_eq!(
        (mails.broker.as_str(), mails.consumer.as_str()),
        ("rabbit", "mailer")
    );
    assert_eq!(mails.from, ListenFrom::Queue("orders".to_owned()));
    assert_eq!(mails.inbox.as_deref(), Some("mailer"));
    assert_eq!(mails.dead_broker, "rabbit");
    assert_eq!(mails.dead_address.get("routing_key"), Some("mails"));
    assert_eq!((mails.concurrency, mails.prefetch), (4, 50));
    assert_eq!((mails.order, mails.replays), (Order::None, Replays::Apply));
    assert_eq!((mails.timeout, mails.drain_timeout), (secs(30), secs(40)));
    assert_eq!((mails.redelivery_limit, mails.envelope), (5, Envelope::Raw));
    assert_eq!(mails.horizon, Some(secs(60 * 86_400)));
    assert_eq!((mails.retry.max, mails.retry.max_attempts), (secs(20), 5));
    let audit = &config.listeners["audit"];
    let position = "audit.position".into();
    assert_eq!(audit.from, ListenFrom::File { position });
    assert_eq!((audit.consumer.as_str(), audit.timeout), ("audit", secs(15)));
}

#[test]
fn the_reference_sets_every_key_of_notifications() {
    use postrider_notify::{Audience, Channel, Digest};
    let config = reference();
    let notify = config.notify.as_ref().expect("notifications");
    assert_eq!(notify.outbox, "stock");
    assert_eq!(notify.listen, Some("127.0.0.1:9788".parse().unwrap()));
    assert!(notify.token.is_some() && notify.secret.is_some());
    assert_eq!(notify.keep, Some(secs(30 * 86_400)));
    assert_eq!(notify.workflows.ignored(), ["TableCleared"]);
    let queues = notify.queues.as_ref().expect("a broker");
    assert_eq!((&*queues.broker, &*queues.dead_broker), ("rabbit", "rabbit"));
    assert_eq!(queues.dead_address.get("routing_key"), Some("notes"));
    assert_eq!(notify.queue_of["GUEST"], "guests");
    let (name, view) = ("GUEST".to_owned(), "guest_notification".to_owned());
    assert_eq!(notify.workflows.audiences(), [Audience { name, view }]);
    let [booked, waitlist] = notify.workflows.all() else {
        panic!("two workflows")
    };
    assert_eq!(
        (&*booked.name, &*booked.category, &*booked.locale),
        ("booked", "bookings", "de")
    );
    assert_eq!(
        (&booked.audiences[..], &booked.event_types[..]),
        (&["GUEST".to_owned()][..], &["TableBooked".to_owned()][..])
    );
    assert_eq!(booked.channels, Channel::ALL);
    assert_eq!(booked.resource.as_deref(), Some("{{ payload.table }}"));
    assert_eq!((booked.period, booked.digest), (Some(secs(86_400)), None));
    assert_eq!(waitlist.digest, Some(Digest { window: secs(600) }));
    assert_eq!(booked.templates.len(), 3);
    let email = &notify.email.as_ref().expect("mail").options;
    assert_eq!((&*email.host, email.port), ("mail.internal", Some(2525)));
    assert_eq!(email.user.as_deref(), Some("shop"));
    assert!(email.password.is_some() && email.unsubscribe.is_some() && email.ca_file.is_some());
    assert!(email.unsubscribe_secret.is_some());
    assert_eq!(email.security, postrider_notify::deliver::Security::None);
    assert!(
        email.allow_plain && email.timeout * 2 + email.batch_time < config.relay.settings.publish_timeout
    );
    let push = &notify.push.as_ref().expect("pushes").options;
    assert!(push.allow_private && push.timeout + push.batch_time < config.relay.settings.publish_timeout);
}

#[test]
fn the_reference_sets_every_key_of_routes() {
    let config = reference();
    let [first, second, third] = config.published.routes() else {
        panic!("three routes")
    };
    assert_eq!(first.when.outbox, ["orders"]);
    assert_eq!(first.when.aggregate_type, ["RESTAURANT", "CUSTOMER"]);
    assert_eq!(first.when.event_type, ["OrderPlaced"]);
    assert_eq!(first.when.header["tenant"], ["a", "b"]);
    let to = config.published.destination(first.to[0]);
    assert_eq!(
        (to.name.as_str(), to.broker.as_str()),
        ("notifications", "rabbit")
    );
    let address: Vec<_> = to
        .address
        .iter()
        .map(|(part, text)| (part.as_str(), text.source()))
        .collect();
    let wanted = [
        ("exchange", "notifications.exchange"),
        ("routing_key", "notification.{aggregate_type|lower}"),
    ];
    assert_eq!(address, wanted);
    assert_eq!(
        to.message_key.as_ref().map(|key| key.source()),
        Some("{header.tenant}")
    );
    assert_eq!((to.envelope, to.dead_letter), (Envelope::Raw, DeadLetter::Skip));
    assert_eq!(
        (to.limits.max_in_flight, to.limits.max_rate),
        (Some(64), Some(500))
    );
    let retry = RetryPolicy {
        base: secs(2),
        multiplier: 3.0,
        max: secs(60),
        jitter: 0.1,
        max_attempts: 4,
    };
    assert_eq!(to.retry, retry);
    assert!(second.to.is_empty());
    assert_eq!(
        config.published.destination(third.to[0]).retry,
        config.relay.settings.retry
    );
}

#[test]
fn the_reference_sets_every_key_of_the_rest() {
    let config = reference();
    assert_eq!(config.relay.profile, Some(Profile::HighVolume));
    let settings = &config.relay.settings;
    assert_eq!(settings.poll_interval, Duration::from_millis(250));
    assert_eq!(settings.initial_delay, secs(2));
    assert_eq!((settings.batch_size, settings.window), (200, 4_096));
    assert_eq!(settings.window_bytes, 32 << 20);
    assert_eq!((settings.lease, settings.drain_timeout), (secs(15), secs(20)));
    assert_eq!(settings.publish_timeout, secs(12));
    assert_eq!(settings.stalled_after, secs(1_800));
    let retry = RetryPolicy {
        base: Duration::from_millis(500),
        multiplier: 1.5,
        max: secs(120),
        jitter: 0.5,
        max_attempts: 6,
    };
    assert_eq!(settings.retry, retry);
    assert_eq!(
        config.cleanup,
        Cleanup {
            retention: Some(secs(14 * 86_400)),
            schedule: "0 30 2 * * mon-sat".parse().unwrap(),
            batch_size: 250,
            audit_retention: secs(730 * 86_400),
            inbox: vec!["inbox".to_owned()],
            inbox_retention: secs(60 * 86_400),
            archive: config.cleanup.archive.clone(),
        }
    );
    let archive = config.cleanup.archive.as_ref().expect("an archive");
    assert_eq!(archive.dir, std::path::Path::new("/var/lib/postrider/archive"));
    assert_eq!(archive.after, secs(86_400));
    let on_dead = config.on_dead.as_ref().expect("someone to tell");
    let words = ["/usr/local/bin/tell-the-team", "#orders"].map(str::to_owned);
    assert_eq!(
        (on_dead.command.as_deref(), on_dead.timeout),
        (Some(&words[..]), secs(10))
    );
    assert_eq!(
        on_dead.url.as_ref().map(|url| url.host()),
        Some("hooks.example.com")
    );
    assert_eq!(
        config.health,
        Thresholds {
            max_unpublished: 5_000,
            max_age: secs(600),
            max_dead: 3,
            failing_unpublished: 50_000,
            failing_age: secs(1_200),
            stalled_after: secs(1_800),
            stuck_after: secs(45),
        }
    );
    assert_eq!(config.admin.listen, Listen::At("0.0.0.0:9090".parse().unwrap()));
    assert_eq!(
        config.admin.token.as_ref().map(postrider_core::Secret::expose),
        Some("only-an-example-of-a-token")
    );
    assert_eq!(config.admin.max_types, Some(50));
    assert_eq!(
        config.log,
        Log {
            format: Format::Json,
            level: "warn,postrider_relay=debug".to_owned()
        }
    );
}

/// Every key of the reference is in what `config show` prints, so nobody has to guess what is in force.
#[test]
fn what_is_in_force_names_every_key() {
    let shown = reference().show();
    // A secret that came from a file is shown as the secret that it is.
    let hidden = [
        "url_file",
        "password_file",
        "token_file",
        "listen_url_file",
        "password",
        "token",
        "secret_file",
    ];
    let keys = include_str!("../../../reference.toml")
        .lines()
        .filter_map(|line| {
            let key = line.split_once('=')?.0.trim();
            key.chars()
                .all(|c| c.is_ascii_lowercase() || c == '_')
                .then_some(key)
        });
    for key in keys.filter(|key| !key.is_empty() && !hidden.contains(key)) {
        assert!(has(&shown, key), "{key} is not in {shown}");
    }
}

fn has(value: &serde_json::Value, key: &str) -> bool {
    match value {
        serde_json::Value::Object(fields) => {
            fields.contains_key(key) || fields.values().any(|value| has(value, key))
        }
        serde_json::Value::Array(items) => items.iter().any(|value| has(value, key)),
        _ => false,
    }
}

/// What is shown for a key that is not set is what the store and the sink do without it.
#[cfg(all(feature = "postgres", feature = "rabbitmq"))]
#[test]
fn what_is_shown_without_a_key_is_what_holds() {
    use super::super::{postgres, rabbitmq::defaults};
    let store = postrider_postgres::PgOptions::default();
    assert_eq!(
        (store.schema.as_str(), store.shards, store.connect_timeout),
        (
            postgres::DEFAULT_SCHEMA,
            postgres::DEFAULT_SHARDS,
            postgres::DEFAULT_CONNECT_TIMEOUT
        )
    );
    assert!(!store.strict_keys && !store.poll_only);
    let sink = postrider_rabbitmq::RabbitOptions::new("amqp://localhost");
    assert_eq!(
        (sink.channels, sink.prefetch, sink.max_message_bytes),
        (
            defaults::CHANNELS,
            defaults::PREFETCH,
            defaults::MAX_MESSAGE_BYTES
        )
    );
    assert_eq!(
        (sink.confirm_timeout, sink.connect_timeout),
        (defaults::CONFIRM_TIMEOUT, defaults::CONNECT_TIMEOUT)
    );
}
