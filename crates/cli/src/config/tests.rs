//! What the configuration accepts and refuses, and how it says so.

mod reference;
mod variables;

use std::time::Duration;

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
    assert_eq!(config.published.destinations()[0].name.as_str(), "orders");
    assert!(config.notify.is_some());
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
        ("[cleanup]\nschedule = \"0 3 * * *\"", "must have six fields"),
        ("[cleanup]\nschedule = \"0 0 24 * * *\"", "the hour must be"),
        ("[cleanup]\narchive_after = \"1d\"", "needs `archive_dir`"),
        (
            "[cleanup]\narchive_dir = \"a\"\narchive_after = \"8d\"",
            "must not be longer than the history of the outbox",
        ),
        ("[on_dead]\ncommand = []", "must name a program"),
        ("[on_dead]\ntimeout = \"1s\"", "neither a `command` nor a `url`"),
        ("[on_dead]\nurl = \"hooks.example\"", "must be a url such as"),
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
