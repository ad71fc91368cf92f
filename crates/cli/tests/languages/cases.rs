//! The events: everything that a driver, a literal or an encoding could change on the way.

/// One event and what is to become of it. Its name is its aggregate id too, by which it is found again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) event_type: &'static str,
    pub(crate) key: Option<&'static str>,
    pub(crate) payload: Option<String>,
    pub(crate) bytes: Option<Vec<u8>>,
    pub(crate) content_type: Option<&'static str>,
    pub(crate) headers: Option<&'static str>,
    pub(crate) priority: Option<i32>,
    pub(crate) available_at: Option<&'static str>,
    pub(crate) created_at: Option<&'static str>,
    pub(crate) fate: Fate,
    /// Whether it goes through `outbox_send(…)`.
    pub(crate) called: bool,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    #[default]
    Arrives,
    /// Its transaction is rolled back.
    RolledBack,
    /// The database takes it, the relay does not.
    Parked,
}

pub(crate) const AGGREGATE_TYPE: &str = "CHECK";
/// Routed to the queue of raw bodies alone: a larger envelope would be more than the server takes.
pub(crate) const LARGE: &str = "Large";
/// The key of the events whose order is looked at.
pub(crate) const SAME: &str = "même clé 😀";
/// The largest message that the private server takes.
const MIB: usize = 1 << 20;

/// JSON texts, to be carried as they are.
const TEXTS: &[(&str, &str)] = &[
    (
        "quotes",
        r#"{"text": "O'Reilly said \"no\"; '' $1 %s %(a)s ? :name :'x' $$ -- /* "}"#,
    ),
    ("backslashes", r#"{"path":"C:\\dir\\new","pattern":"\\d+\\\\\/"}"#),
    ("newlines", "{\n\t\"a\": 1,\r\n\n  \"b\":\t[ ]\n}"),
    ("accents", r#"{"é":"naïve Ünïcödé ß 日本語 עברית"}"#),
    (
        "combined",
        "{\"not composed\":\"e\u{301}\",\"marks\":\"\u{feff}\u{2028}\u{85}\u{7f}\"}",
    ),
    ("emoji", "{\"😀\":\"👩\u{200d}👩\u{200d}👧 🏴\"}"),
    (
        "escapes",
        r#"{"nul":"\u0000","bell":"\u0007","é":"\u00e9","pair":"\ud83d\ude00","b":"\b\f\n\r\t"}"#,
    ),
    (
        "numbers",
        r#"{"n":1.10,"big":123456789012345678901234567890,"e":1E400,"z":-0.0,"twice":1,"twice":2}"#,
    ),
    ("scalar", r#""only a text""#),
];

/// All that every driver must carry, in the order of inserting.
pub(crate) fn all() -> Vec<Case> {
    let mut cases: Vec<Case> = TEXTS.iter().map(|(name, text)| json(name, text)).collect();
    cases.extend(payloads());
    cases.extend(columns());
    cases.extend(in_order());
    cases.extend(bad());
    cases
}

/// Those that go through the function of the database.
pub(crate) fn called() -> Vec<Case> {
    let called = Case {
        headers: Some(r#"{"note":"é 😀"}"#),
        ..json("called", TEXTS[0].1)
    };
    let nulls = Case {
        payload: None,
        ..json("called with nulls", "")
    };
    [
        called,
        nulls,
        bytes("called with bytes", vec![0, 0xff, b'\\', b'\'']),
    ]
    .into_iter()
    .map(|case| Case { called: true, ..case })
    .collect()
}

/// Other payloads than JSON, and none.
fn payloads() -> Vec<Case> {
    let plain = "tab\t bell\u{7} escape\u{1b} delete\u{7f}\r\n\\n is not a line \\\\ ' \" é 😀 \\";
    let large = format!("{{\"large\":\"{}\"}}", "é".repeat((MIB - 12) / 2));
    assert_eq!(large.len(), MIB);
    vec![
        Case {
            content_type: Some("text/plain"),
            ..json("plain text", plain)
        },
        Case {
            content_type: Some("text/plain"),
            ..json("empty text", "")
        },
        bytes("all bytes", (0..=255).collect()),
        bytes("no bytes", Vec::new()),
        Case {
            content_type: Some("application/json"),
            ..bytes("json as bytes", br#"{"a": "\\ '"}"#.to_vec())
        },
        Case {
            event_type: LARGE,
            ..json("large", &large)
        },
        Case {
            payload: None,
            id: Some("tombstone".to_owned()),
            ..json("tombstone", "")
        },
    ]
}

/// The other columns.
fn columns() -> Vec<Case> {
    vec![
        Case {
            payload: None,
            ..json("only nulls", "")
        },
        Case {
            id: Some("an id: 'single' \"double\" C:\\dir é 😀".to_owned()),
            ..json("strange id", "{}")
        },
        json("O'Brien \\ \"é\" 😀 $1 %s", "{}"),
        Case {
            headers: Some(
                r#"{"correlation-id": "é 😀", "path": "C:\\dir\\new", "quotes": "' \" ''", "escaped": "\u00e9"}"#,
            ),
            ..json("headers", "{}")
        },
        Case {
            priority: Some(7),
            available_at: Some("2020-01-01T00:00:00Z"),
            created_at: Some("2026-01-31T12:00:00.123456Z"),
            ..json("times", "{}")
        },
        Case {
            priority: Some(-2_147_483_648),
            created_at: Some("2026-01-31T14:00:00+02:00"),
            ..json("other zone", "{}")
        },
        Case {
            content_type: Some("application/vnd.shop.order+json"),
            ..json("content type", r#"{"a": 1}"#)
        },
    ]
}

/// Many of one key, every fifth of them rolled back.
fn in_order() -> Vec<Case> {
    let numbered = |n: i32| Case {
        key: Some(SAME),
        fate: if n % 5 == 0 {
            Fate::RolledBack
        } else {
            Fate::Arrives
        },
        ..json(&format!("number {n}"), &format!("{{\"n\": {n}}}"))
    };
    (1..=30).map(numbered).collect()
}

/// What the contract lets in and the relay parks.
fn bad() -> Vec<Case> {
    let parked = |case: Case| Case {
        fate: Fate::Parked,
        ..case
    };
    vec![
        parked(json("not json", "{'single': 'quotes'}")),
        parked(Case {
            headers: Some(r#"{"n": 1}"#),
            ..json("bad headers", "{}")
        }),
        parked(Case {
            key: Some("a key\nof two lines"),
            ..json("bad key", "{}")
        }),
    ]
}

fn json(name: &str, payload: &str) -> Case {
    Case {
        name: name.to_owned(),
        event_type: "Checked",
        payload: Some(payload.to_owned()),
        ..Case::default()
    }
}

fn bytes(name: &str, bytes: Vec<u8>) -> Case {
    Case {
        payload: None,
        bytes: Some(bytes),
        ..json(name, "")
    }
}
