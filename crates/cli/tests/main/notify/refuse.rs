//! What is wrong with a configuration of notifications is said with its line, and nothing is started.

use super::config;
use crate::support::{Place, Running};

/// The configuration with something replaced is refused: in these words, with a line.
#[track_caller]
fn refused(from: &str, to: &str, wanted: &str) {
    let place = Place::empty();
    let whole = config(7788);
    assert!(whole.contains(from), "{from}");
    place.write("postrider.toml", &whole.replacen(from, to, 1));
    place
        .run(&["config", "check"])
        .expect(2)
        .complains(wanted)
        .complains("--> postrider.toml:");
}

#[test]
fn mistakes_have_their_line() {
    place_is_fine();
    for (from, to, wanted) in [
        ("[notify]\nlisten", "[notify]\nlisen", "did you mean `listen`?"),
        (
            "127.0.0.1:7788",
            "0.0.0.0:7788",
            "a token and a secret are needed",
        ),
        ("127.0.0.1:7788", "here", "must be an address with a port"),
        ("a secret that is long enough", "short", "at least 16 characters"),
        (
            "[notify]\n",
            "[notify]\noutbox = \"mian\"\n",
            "there is no outbox named",
        ),
        (
            "[notify]\n",
            "[notify]\nbroker = \"events\"\n",
            "this kind of broker has no queues",
        ),
        (
            "[notify]\n",
            "[notify]\ndead_letters = { path = \"x\" }\n",
            "those of a broker",
        ),
        (
            "name = \"CUSTOMER\"",
            "name = \"CUSTOMER\"\nqueue = \"q\"",
            "a queue is one of a broker",
        ),
        (
            "name = \"CUSTOMER\"",
            "name = \"CUSTOMER\"\nview = \"a b\"",
            "cannot be the name of its view",
        ),
        (
            "category = \"orders\"",
            "category = \"orders\"\naudiences = [\"CUSTOMERS\"]",
            "known here: CUSTOMER",
        ),
        (
            "category = \"orders\"",
            "category = \"orders\"\nresource = \"\"\nperiod = \"120d\"",
            "set `keep` in [notify] to at least \"120d\"",
        ),
        (
            "category = \"orders\"",
            "category = \"orders\"\nresource = \"\"\ndigest = \"10m\"",
            "take the resource and its period away",
        ),
        ("category = \"orders\"\n", "", "the key `category` is missing"),
        ("\"push\"]", "\"email\"]", "there is no [notify.email]"),
        ("\"push\"]", "\"fax\"]", "must be"),
        ("{{ payload.order }}", "{{ payload.order", "orders"),
        (
            "templates.push.en",
            "templates.psh.en",
            "there is no channel named",
        ),
        (
            "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "short",
            "the secret of push",
        ),
    ] {
        refused(from, to, wanted);
    }
}

#[track_caller]
fn place_is_fine() {
    let place = Place::empty();
    place.write("postrider.toml", &config(7788));
    let ran = place.run(&["config", "check"]).expect(0);
    assert!(!ran.out.contains("note"), "{}", ran.out);
    let shown = place.run(&["config", "show"]).expect(0);
    for secret in ["a secret that is long", "whsec_"] {
        assert!(!shown.out.contains(secret), "{}", shown.out);
    }
    shown.says("[notify.push]").says("secret = \"[redacted]\"");
}

#[test]
fn mail_is_checked_like_everything_else() {
    let mail = |url: &str, more: &str| {
        format!("[notify.email]\nurl = \"{url}\"\nfrom = \"shop@example.com\"\n{more}\n[notify.push]")
    };
    for (url, more, wanted) in [
        ("http://h", "", "smtp:// or smtps://"),
        ("smtp://u@h", "", "a user in the url and a password"),
        ("smtp://mail.example.com", "security = \"none\"", "in the clear"),
        (
            "smtp://mail.example.com",
            "security = \"some\"",
            "\"starttls\" or \"tls\"",
        ),
        (
            "smtp://mail.example.com",
            "unsubscribe = \"nowhere\"",
            "| unsubscribe = \"nowhere\"",
        ),
        (
            "smtp://mail.example.com",
            "ca_file = \"nowhere.pem\"",
            "| ca_file = \"nowhere.pem\"",
        ),
    ] {
        refused("[notify.push]", &mail(url, more), wanted);
    }
    let place = Place::empty();
    let fine = config(7788).replace("[notify.push]", &mail("smtp://u:s3cret@h:25", ""));
    place.write("postrider.toml", &fine);
    let shown = place.run(&["config", "show", "--json"]).expect(0);
    assert!(!shown.out.contains("s3cret"), "{}", shown.out);
    assert_eq!(shown.json()["notify"]["email"]["url"], "smtp://u@h:25");
}

#[test]
fn a_variable_changes_a_key_and_is_checked_like_a_line() {
    let place = Place::empty();
    place.write("postrider.toml", &config(7788));
    let variable = [("POSTRIDER__NOTIFY__KEEP", "1d")];
    let shown = place.run_with(&["config", "show", "--json"], &variable).expect(0);
    assert_eq!(shown.json()["notify"]["keep"], "1d");
    let variable = [("POSTRIDER__NOTIFY__LISTEN", "0.0.0.0:80")];
    place
        .run_with(&["notify", "run"], &variable)
        .expect(2)
        .complains("POSTRIDER__NOTIFY__LISTEN");
}

#[test]
fn what_cannot_be_run_says_what_to_do() {
    let place = Place::ready(crate::support::ORDERS_ONLY);
    for args in [
        &["notify", "run"][..],
        &["notify", "sign", "ada"],
        &["notify", "migrate", "print"],
    ] {
        place
            .run(args)
            .expect(2)
            .complains("no notifications are configured");
    }
    let demo = ["notify", "demo", "--for", "1s", "--listen", "0.0.0.0:0"];
    place.run(&demo).expect(2).complains("everybody's feed");

    // In a new directory there is one command for all of it.
    let new = Place::empty();
    new.write("postrider.toml", &config(crate::http::port()));
    for args in [&["notify", "run"][..], &["notify", "show", "1"]] {
        new.run(args)
            .expect(3)
            .complains("`postrider notify migrate up` makes the file");
    }

    // Tables of the outbox alone are not enough.
    place.write("postrider.toml", &config(crate::http::port()));
    place
        .run(&["notify", "run"])
        .expect(3)
        .complains("notify migrate up");
    place
        .run(&["notify", "show", "1"])
        .expect(3)
        .complains("notify migrate up");
    // The deliveries need the channels.
    place.run(&["run"]).expect(2).complains("postrider notify run");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    place.write("postrider.toml", &config(taken.local_addr().unwrap().port()));
    let running = Running::start(&place, &["notify", "run", "--migrate"]);
    running.wait().expect(3).complains("feeds cannot be served");
}
