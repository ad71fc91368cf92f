//! What the configuration accepts and refuses, and how it says so.

use std::time::Duration;

use postrider_admin::Thresholds;
use postrider_core::{DeadLetter, Envelope, RetryPolicy};
use postrider_relay::Profile;

use super::*;

fn read(text: &str, variables: &[(&str, &str)]) -> Result<Config, Box<ConfigError>> {
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
    parse(Origin::File("postrider.toml".into()), text, variables)
}

/// The default with something added; a table of the same name may not be added twice.
fn with(extra: &str) -> Result<Config, Box<ConfigError>> {
    read(&format!("{DEFAULT}\n{extra}"), &[])
}

#[track_caller]
fn refused(extra: &str) -> String {
    with(extra).expect_err("must be refused").to_string()
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn the_embedded_default_is_an_sqlite_file_into_json_lines() {
    let config = read(DEFAULT, &[]).unwrap();
    assert_eq!(config.outboxes["main"].place.show(), "sqlite:postrider.db");
    assert_eq!(config.brokers["events"].kind.show(), "file:events.jsonl");
    assert_eq!(config.router.destinations()[0].name.as_str(), "events");
    assert_eq!(config.relay.settings, postrider_relay::Settings::default());
}

#[test]
fn what_init_writes_is_the_embedded_default() {
    let written = read(include_str!("../commands/init.toml"), &[]).unwrap();
    assert_eq!(written.show(), read(DEFAULT, &[]).unwrap().show());
}

#[test]
fn what_init_leaves_in_comments_is_right_too() {
    let is_setting = |text: &&str| text.starts_with('[') || text.contains(" = ");
    let uncommented: Vec<&str> = include_str!("../commands/init.toml")
        .lines()
        .map(|line| line.strip_prefix("# ").filter(is_setting).unwrap_or(line))
        .collect();
    let config = read(&uncommented.join("\n"), &[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(config.outboxes["shop"].place, Place::Postgres(_)));
    assert!(matches!(config.brokers["rabbit"].kind, Kind::RabbitMq(_)));
    assert_eq!(config.router.destinations()[0].name.as_str(), "orders");
}

/// The reference without the folder that its secret files are relative to.
fn reference() -> Config {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/reference/");
    read(
        &include_str!("../../reference.toml").replace("\"reference/", &format!("\"{folder}")),
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
fn the_reference_sets_every_key_of_routes() {
    let config = reference();
    let [first, second, third] = config.router.routes() else {
        panic!("three routes")
    };
    assert_eq!(first.when.outbox, ["orders"]);
    assert_eq!(first.when.aggregate_type, ["RESTAURANT", "CUSTOMER"]);
    assert_eq!(first.when.event_type, ["OrderPlaced"]);
    assert_eq!(first.when.header["tenant"], ["a", "b"]);
    let to = config.router.destination(first.to[0]);
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
        config.router.destination(third.to[0]).retry,
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
            interval: secs(300),
            batch_size: 250
        }
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

#[test]
fn an_address_beyond_this_machine_needs_a_token() {
    let error = refused("[admin]\nlisten = \"0.0.0.0:7787\"");
    assert!(
        error.contains("can be reached from other machines, and no token is set"),
        "{error}"
    );
    assert!(error.contains("token_file"), "it says what to do: {error}");
    let token = "a-token-long-enough-for-anybody";
    let config = with(&format!("[admin]\nlisten = \"[::]:7787\"\ntoken = \"{token}\"")).unwrap();
    assert_eq!(config.admin.listen, Listen::At("[::]:7787".parse().unwrap()));
    assert!(!config.show().to_string().contains(token));
    for (listen, wanted) in [
        ("off", Listen::Off),
        ("localhost:80", Listen::At("127.0.0.1:80".parse().unwrap())),
        ("[::1]:80", Listen::At("[::1]:80".parse().unwrap())),
    ] {
        let config = with(&format!("[admin]\nlisten = \"{listen}\"")).unwrap();
        assert_eq!(config.admin.listen, wanted);
    }
    assert_eq!(with("").unwrap().admin.listen, Listen::Default);
    assert!(refused("[admin]\nlisten = \"7787\"").contains("an address with a port"));
    let short = refused("[admin]\ntoken = \"hunter2\"");
    assert!(
        short.contains("at least 16 characters") && !short.contains("hunter2"),
        "{short}"
    );
}

#[test]
fn failing_never_comes_before_degraded() {
    assert!(refused("[health]\nmax_unpublished = 10\nfailing_unpublished = 9").contains("max_unpublished"));
    assert!(refused("[health]\nmax_age = \"10m\"\nfailing_age = \"9m\"").contains("max_age"));
    let health = with("[health]\nmax_unpublished = 1000000\nmax_age = \"1d\"")
        .unwrap()
        .health;
    assert!(health.failing_unpublished > 1_000_000 && health.failing_age > secs(86_400));
}

/// Fault G17.
#[test]
fn an_unknown_key_is_shown_with_its_line_and_the_nearest_name() {
    let error = read("[relay]\nbatch_size = 10\n  poll_intervall = \"1s\"\n", &[]).unwrap_err();
    let wanted = "unknown key `poll_intervall`
  --> postrider.toml:3:3
  |
3 |   poll_intervall = \"…\"
  |   ^^^^^^^^^^^^^^
  help: did you mean `poll_interval`?";
    assert_eq!(error.to_string(), wanted);
    assert!(refused("[relais]\nwindow = 1").contains("did you mean `relay`?"));
    assert!(refused("[[route]]\nwhen = { aggregat_type = \"A\" }\nto = []").contains("`aggregate_type`"));
    let quoted = refused("[[route]]\nwhen = { \"header.tenant\" = \"a\" }\nto = []");
    assert!(quoted.contains("write header.tenant without quotes"), "{quoted}");
    let unknown = refused("[[route]]\nto = [{ broker = \"events\", exchang = \"x\" }]");
    assert!(
        unknown.contains("unknown key `exchang`") && unknown.contains("postrider.toml:11"),
        "{unknown}"
    );
}

/// Fault G17.
#[test]
fn values_out_of_bounds_name_the_range() {
    for (extra, wanted) in [
        (
            "[relay]\npoll_interval = \"-1s\"",
            "must not be negative: a duration from 0s to 3650d, is \"-1s\"",
        ),
        ("[relay]\npoll_interval = -1", "must not be negative"),
        ("[relay]\npoll_interval = 5", "must be text with a unit"),
        (
            "[relay]\npoll_interval = \"0s\"",
            "relay.poll_interval must be at least 1ms",
        ),
        ("[relay]\nlease = \"99999999999999999999d\"", "from 0s to 3650d"),
        (
            "[relay]\nbatch_size = 0",
            "must be a whole number from 1 to 100000, is 0",
        ),
        ("[relay]\nbatch_size = 99999999999999999999", "integer"),
        (
            "[relay]\nwindow_bytes = \"1PiB\"",
            "must be a size from 1B to 64GiB",
        ),
        (
            "[relay.retry]\njitter = 1.5",
            "must be a number from 0 to 1, is 1.5",
        ),
        ("[relay.retry]\nmultiplier = nan", "from 1 to 1000"),
        (
            "[relay.retry]\nbase = \"10m\"",
            "relay.retry.max must be at least",
        ),
        (
            "[relay]\nprofile = \"prod\"",
            "must be \"development\" or \"staging\" or",
        ),
        ("[log]\nlevel = \"inof\"", "must be off, error, warn"),
        ("[cleanup]\ninterval = \"1ms\"", "at least 1s"),
        (
            "[outbox.b]\nurl = \"sqlite:b.db\"\nprefix = \"a\\\"b\"",
            "a table prefix has from 1",
        ),
        (
            "[outbox.b]\nurl = \"sqlite:b.db\"\nhistory = 7",
            "such as \"7d\", or \"none\"",
        ),
        ("[outbox.b]\nprefix = \"b\"", "the key `url` is missing"),
        ("[outbox.b]\nurl = \"b.db\"", "the url has no scheme"),
        (
            "[outbox.\"b c\"]\nurl = \"sqlite:b.db\"",
            "a name has from 1 to 64",
        ),
        (
            "[outbox.b]\nurl = \"sqlite:b.db\"\nurl_file = \"x\"",
            "`url` and `url_file` are both given",
        ),
        (
            "[outbox.b]\nurl_file = \"does-not-exist\"",
            "cannot read does-not-exist",
        ),
        (
            "[outbox.b]\nurl = \"sqlite:b.db\"\nuser = \"x\"",
            "an SQLite file has no login",
        ),
        (
            "[broker.b]\nurl = \"stdout:\"\nsync = true",
            "`sync` is a setting of file brokers",
        ),
        (
            "[[route]]\nto = [{ broker = \"evnets\" }]",
            "did you mean `events`?",
        ),
        (
            "[[route]]\nto = [{ name = \"x\" }]",
            "the key `broker` is missing",
        ),
        (
            "[[route]]\nwhen = { outbox = \"mian\" }\nto = []",
            "did you mean `main`?",
        ),
        (
            "[[route]]\nwhen = { event_type = [] }\nto = []",
            "an empty list matches nothing",
        ),
        (
            "[[route]]\nto = [{ broker = \"events\", message_key = \"{nope}\" }]",
            "nope",
        ),
        (
            "[[route]]\nto = [{ broker = \"events\", envelope = \"raw\" }]",
            "two different destinations",
        ),
        (
            "[[route]]\nto = [{ broker = \"events\", name = \"x\", max_rate = 0 }]",
            "from 1 to",
        ),
        ("[[route]]", "the key `to` is missing"),
    ] {
        let error = refused(extra);
        assert!(error.contains(wanted), "{extra}\n{error}");
        assert!(error.contains("--> postrider.toml:"), "{extra}\n{error}");
    }
    assert!(
        read("", &[])
            .unwrap_err()
            .to_string()
            .contains("no outbox is configured")
    );
}

/// Fault G17.
#[test]
fn variables_replace_keys_and_are_named_in_errors() {
    let config = read(
        DEFAULT,
        &[
            ("POSTRIDER__OUTBOX__MAIN__URL", "sqlite:other.db"),
            ("POSTRIDER__RELAY__BATCH_SIZE", "7"),
            ("POSTRIDER__BROKER__EVENTS__SYNC", "false"),
            ("POSTRIDER__RELAY__RETRY__JITTER", "0.5"),
            ("POSTRIDER_CONFIG", "ignored"),
            ("PATH", "/bin"),
        ],
    )
    .unwrap();
    assert_eq!(config.outboxes["main"].place.show(), "sqlite:other.db");
    assert_eq!(config.relay.settings.batch_size, 7);
    assert_eq!(config.relay.settings.retry.jitter, 0.5);
    for (name, value, wanted) in [
        ("POSTRIDER__RELAY__BATCH_SIZE", "0", "from 1 to 100000"),
        ("POSTRIDER__RELAY__BATCHSIZE", "1", "did you mean `batch_size`?"),
        ("POSTRIDER__RELAY", "1", "two underscores"),
        ("POSTRIDER__ROUTE__TO", "1", "is a list"),
        (
            "POSTRIDER__OUTBOX__MAIN__URL",
            "sqlite:a.db\nx",
            "control characters",
        ),
        ("POSTRIDER__OUTBOX__MAIN__URL__X", "1", "is not a table"),
    ] {
        let error = read(DEFAULT, &[(name, value)]).unwrap_err().to_string();
        assert!(error.contains(wanted) && error.contains(name), "{error}");
    }
}

/// Fault G17. A slip in the name would otherwise make a second outbox, and the first would keep what was to be replaced.
#[test]
fn a_variable_for_a_name_that_the_file_does_not_have_is_refused() {
    let file = DEFAULT.replace("main", "shop");
    for (name, wanted) in [
        ("POSTRIDER__OUTBOX__SHOPP__URL", "did you mean `shop`?"),
        (
            "POSTRIDER__OUTBOX__ELSEWHERE__POSTGRES__SCHEMA",
            "known here: shop",
        ),
        ("POSTRIDER__BROKER__EVENT__URL", "did you mean `events`?"),
    ] {
        let error = read(&file, &[(name, "file:x")]).unwrap_err().to_string();
        assert!(error.contains(wanted) && error.contains(name), "{error}");
        assert!(error.contains("postrider.toml has no"), "{error}");
    }
}

#[test]
fn variables_alone_may_name_what_no_file_names() {
    let rest = "[[route]]\nto = [{ broker = \"rabbit\" }]";
    let variables = [
        ("POSTRIDER__OUTBOX__SHOP__URL", "sqlite:shop.db"),
        ("POSTRIDER__OUTBOX__SHOP__PREFIX", "shop"),
        ("POSTRIDER__OUTBOX__STOCK__URL", "sqlite:stock.db"),
        ("POSTRIDER__BROKER__RABBIT__URL", "memory:"),
    ];
    let config = read(rest, &variables).unwrap();
    assert!(config.outboxes.keys().eq(["shop", "stock"]) && config.brokers.contains_key("rabbit"));
    let pairs = variables.map(|(name, value)| (name.into(), value.into()));
    let config = parse(Origin::Embedded, DEFAULT, pairs).unwrap();
    assert!(config.outboxes.contains_key("shop"));
}

#[test]
fn no_error_and_no_listing_shows_a_secret() {
    const CANARY: &str = "c4n4ry";
    for extra in [
        "[outbox.b]\nurl = \"postgres://u:c4n4ry@h/b\"\nprefix = \"a b\"",
        "[outbox.b]\nurl = \"postgres://h/b\"\npasword = \"c4n4ry\"",
        "[outbox.b]\nurl = \"postgres://h/b\"\npassword = c4n4ry",
        "[outbox.b]\nurl = \"postgres://h/b\"\npassword = \"c4n4ry\nx\"",
        "[outbox.b]\nurl = \"postgres://h/b\"\npassword = [\"c4n4ry\"]",
        "[outbox.b]\nurl = [\"postgres://u:c4n4ry@h/b\"]",
        "[outbox]\nb = \"postgres://u:c4n4ry@h/b\"",
        "[outbox.b]\nurl = \"u:c4n4ry@h/b",
        "[relay]\nwindow = \"postgres://u:c4n4ry@h\"\nx = 1",
    ] {
        let error = with(extra).expect_err(extra);
        assert!(!format!("{error} {error:?}").contains(CANARY), "{extra}\n{error}");
    }
    let config =
        with("[outbox.b]\nurl = \"postgres://u:c4n4ry@h/b?sslpassword=c4n4ry\"\npassword = \"c4n4ry\"")
            .unwrap();
    assert!(!format!("{} {config:?}", config.show()).contains(CANARY));
}
