//! What a mail looks like, whatever it is made of.

use bytes::Bytes;
use postrider_core::{Address, OrderKey};

use super::*;

const HOSTILE: &str = "Eve\r\nBcc: victim@example.com\r\n\r\n<b>\u{202e}moc\u{0} é😀";

fn writer() -> Writer {
    let options = EmailOptions::new("mail.example.com", "Postrider <noreply@shop.example>")
        .unsubscribe("https://shop.example/u?who={user_id}&what={category}");
    Writer::new(&options).unwrap()
}

fn dispatch() -> Dispatch {
    Dispatch {
        notification_id: 7,
        user_id: "u-1".to_owned(),
        name: "Ann".to_owned(),
        channel: Channel::Email,
        to: "ann@example.com".to_owned(),
        title: "Hello".to_owned(),
        body: "Hello Ann".to_owned(),
        html: None,
        category: "orders".to_owned(),
        event_id: "e-1".to_owned(),
        event_type: "OrderPlaced".to_owned(),
    }
}

fn message(id: &str, dispatch: &Dispatch) -> Message {
    Message {
        event_id: id.into(),
        order_key: OrderKey::new(id),
        message_key: id.to_owned(),
        address: Address::default(),
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        body: Bytes::from(serde_json::to_vec(dispatch).unwrap()),
    }
}

/// The headers of a mail, unfolded.
fn headers(letter: &Letter) -> Vec<(String, String)> {
    let text = std::str::from_utf8(&letter.content).unwrap();
    let (head, _) = text.split_once("\r\n\r\n").unwrap();
    let head = head.replace("\r\n ", " ").replace("\r\n\t", " ");
    let pair = |line: &str| {
        let (name, value) = line
            .split_once(": ")
            .unwrap_or_else(|| panic!("{line:?} is no header"));
        (name.to_owned(), value.to_owned())
    };
    head.split("\r\n").map(pair).collect()
}

fn header(letter: &Letter, name: &str) -> Vec<String> {
    let found = headers(letter).into_iter().filter(|(known, _)| known == name);
    found.map(|(_, value)| value).collect()
}

#[test]
fn a_letter_has_what_servers_and_readers_ask_for() {
    let letter = writer()
        .letter(&message("notification-7-email", &dispatch()))
        .unwrap();
    assert_eq!(header(&letter, "From"), ["Postrider <noreply@shop.example>"]);
    assert_eq!(header(&letter, "To"), ["Ann <ann@example.com>"]);
    assert_eq!(
        header(&letter, "Message-ID"),
        ["<notification-7-email@shop.example>"]
    );
    assert_eq!(header(&letter, "X-Postrider-Event-Id"), ["notification-7-email"]);
    assert_eq!(header(&letter, "Date").len(), 1);
    let url = "<https://shop.example/u?who=u-1&what=orders>";
    assert_eq!(header(&letter, "List-Unsubscribe"), [url]);
    assert_eq!(
        header(&letter, "List-Unsubscribe-Post"),
        ["List-Unsubscribe=One-Click"]
    );
}

#[test]
fn nothing_in_a_delivery_becomes_a_header_of_its_own() {
    let dispatch = Dispatch {
        name: HOSTILE.to_owned(),
        title: HOSTILE.to_owned(),
        user_id: HOSTILE.to_owned(),
        category: "{user_id}>\r\nBcc: victim@example.com".to_owned(),
        html: Some(HOSTILE.to_owned()),
        ..dispatch()
    };
    let letter = writer().letter(&message(HOSTILE, &dispatch)).unwrap();
    let known = [
        "From",
        "To",
        "Subject",
        "Date",
        "Message-ID",
        "X-Postrider-Event-Id",
        "Auto-Submitted",
        "List-Unsubscribe",
        "List-Unsubscribe-Post",
        "MIME-Version",
        "Content-Type",
    ];
    for (name, value) in headers(&letter) {
        assert!(known.contains(&name.as_str()), "{name}: {value}");
        assert!(
            value.is_ascii() && !value.contains(['\r', '\n', '\0']),
            "{name}: {value:?}"
        );
    }
    for name in known {
        assert_eq!(header(&letter, name).len(), 1, "{name}");
    }
    assert_eq!(letter.to.to_string(), "ann@example.com");
}

/// Encoded words that were in the text before are shown, not decoded.
#[test]
fn a_title_cannot_encode_something_else() {
    let dispatch = Dispatch {
        title: "=?utf-8?q?Eve=0D=0ABcc:_victim@example.com?=".to_owned(),
        ..dispatch()
    };
    let letter = writer().letter(&message("m", &dispatch)).unwrap();
    let subject = header(&letter, "Subject").remove(0);
    assert!(!subject.contains("=?"), "{subject}");
}

#[test]
fn a_text_cannot_end_the_mail_before_its_end() {
    for text in ["a\n.\nb", "a\r.\rb", "a\r\n.\r\nMAIL FROM:<x@y>", "a\n\r.\n\r"] {
        let dispatch = Dispatch {
            body: text.to_owned(),
            ..dispatch()
        };
        let letter = writer().letter(&message("m", &dispatch)).unwrap();
        let content = String::from_utf8(letter.content).unwrap();
        let bare = content.replace("\r\n", "");
        assert!(!bare.contains(['\r', '\n']), "{content:?}");
    }
}

#[test]
fn an_address_that_is_none_is_refused_with_a_reason() {
    for wrong in [
        "",
        "ann",
        "ann@",
        "@example.com",
        "ann@example.com\r\nDATA",
        "a b@example.com",
        "a@b>, <c@d.e",
    ] {
        let dispatch = Dispatch {
            to: wrong.to_owned(),
            ..dispatch()
        };
        let Err(failure) = writer().letter(&message("m", &dispatch)) else {
            panic!("{wrong:?} was taken");
        };
        assert_eq!(failure.kind, ErrorKind::NotEncodable);
        assert!(failure.text.contains("address"), "{}", failure.text);
    }
}

#[test]
fn ids_are_the_same_at_every_repetition_and_different_for_different_events() {
    assert_eq!(inner_id("notification-7-email"), "notification-7-email");
    assert_ne!(inner_id("a b"), inner_id("a=20b"));
    assert_eq!(inner_id("a>\r\n.é"), "a=3E=0D=0A=2E=C3=A9");
}

/// What stands in a mail turns mail off, and opens no feed.
#[test]
fn the_link_to_unsubscribe_is_signed() {
    let secret = Secret::new("s3cret");
    let url = "https://shop.example/unsubscribe/{user_id}?category={category}&signature={signature}";
    let options = EmailOptions::new("mail.example.com", "noreply@shop.example");
    let options = options.unsubscribe(url).unsubscribe_secret("s3cret");
    let letter = Writer::new(&options).unwrap();
    let letter = letter.letter(&message("e-1", &dispatch())).unwrap();
    let text = String::from_utf8(letter.content).unwrap();
    let signature = sign_unsubscribe(&secret, "u-1");
    let link = format!("<https://shop.example/unsubscribe/u-1?category=orders&signature={signature}>");
    assert!(text.contains(&link), "{text}");
    assert!(!text.contains(&crate::http::sign(&secret, "u-1")));
}

#[test]
fn options_that_cannot_work_are_named() {
    let options = || EmailOptions::new("mail.example.com", "noreply@shop.example");
    let wrong = |options: EmailOptions| Writer::new(&options).err().map(|error| error.to_string());
    assert!(
        wrong(EmailOptions::new("h", "nobody"))
            .unwrap()
            .starts_with("from must be")
    );
    for url in [
        "http://a/b",
        "https://a/{tenant}",
        "https://a/ b",
        "https://a/\r\nBcc: x@y",
    ] {
        assert!(
            wrong(options().unsubscribe(url))
                .unwrap()
                .starts_with("unsubscribe"),
            "{url}"
        );
    }
    assert_eq!(
        wrong(options().unsubscribe("https://a/{user_id}/{category}")),
        None
    );
    let signed = || options().unsubscribe("https://a/{user_id}?by={signature}");
    assert!(wrong(signed()).unwrap().contains("no secret to sign with"));
    assert_eq!(wrong(signed().unsubscribe_secret("s3cret")), None);
}
