//! What is planned for whom.

use std::time::Duration;

use serde_json::json;

use super::digest::{Collected, LARGEST};
use super::*;
use crate::board::keep::keep;
use crate::board::work::Due;
use crate::examples::{audience, followed, occasion};
use crate::{Digest, Preference, Preferences, Recipient};

fn workflows(change: impl FnOnce(&mut Workflow)) -> Workflows {
    let mut workflow = followed();
    change(&mut workflow);
    Workflows::new(vec![audience()], vec![workflow]).unwrap()
}

fn member(id: &str, email: Option<&str>) -> Member {
    Member {
        recipient: Recipient {
            id: id.to_owned(),
            name: format!("{id}\r\n\u{202e}"),
            email: email.map(str::to_owned),
            ..Recipient::default()
        },
        preferences: Preferences::default(),
    }
}

fn mutes(mut member: Member, channels: &[Channel]) -> Member {
    let off = channels.iter().map(|channel| Preference {
        channel: Some(*channel),
        category: None,
        on: false,
    });
    member.preferences.0.extend(off);
    member
}

fn who() -> serde_json::Value {
    json!({"who": "Bob", "followerId": "b-1"})
}

#[test]
fn each_member_gets_what_they_want() {
    let workflows = workflows(|_| {});
    let mut planner = Planner::new(&workflows, &occasion("e", who())).unwrap();
    let members = [
        member("ann", Some("ann@example.com")),
        mutes(member("bea", Some("bea@example.com")), &[Channel::InApp]),
        mutes(member("cy", None), &[Channel::InApp, Channel::Email]),
        member("dan", Some("nowhere")),
    ];
    let plan = planner.plan(&members).unwrap();
    assert_eq!((plan.notifications.len(), plan.muted), (3, 1));
    let channels = |at: usize| -> Vec<(Channel, Option<&str>)> {
        let planned = plan.notifications[at].deliveries.iter();
        planned.map(|one| (one.channel, one.problem)).collect()
    };
    assert_eq!(channels(0), [(Channel::InApp, None), (Channel::Email, None)]);
    assert_eq!(channels(1), [(Channel::Email, None)]);
    assert_eq!(
        channels(2)[1],
        (Channel::Email, Some("the email address has no @"))
    );
    let bea = &plan.notifications[1];
    assert_eq!(
        (&*bea.words.title, &*bea.words.body),
        ("A new follower", "Bob follows you.")
    );
    assert_eq!(bea.deliveries[0].words.body, "Dear bea, Bob follows you.");
    assert_eq!(bea.name, "bea");
}

#[test]
fn a_delivery_that_can_be_sent_has_an_event() {
    let workflows = workflows(|_| {});
    let mut planner = Planner::new(&workflows, &occasion("e", who())).unwrap();
    let plan = planner
        .plan(&[member("ann", Some("ann@example.com")), member("bea", None)])
        .unwrap();
    let event = |planned: usize, delivery: usize| {
        let planned = &plan.notifications[planned];
        planned.deliveries[delivery]
            .event(7, (planner.subject(), planned))
            .unwrap()
    };
    assert_eq!((event(0, 0), event(1, 1)), (None, None));
    let mail = event(0, 1).unwrap();
    assert_eq!(
        (mail.id.as_str(), &*mail.event_type),
        ("notification-7-email", "notification.email")
    );
    assert_eq!(mail.key.as_deref(), Some("notification-7-email"));
    let dispatch: Dispatch = serde_json::from_slice(mail.payload.as_bytes()).unwrap();
    assert_eq!((&*dispatch.to, &*dispatch.event_id), ("ann@example.com", "e"));
    assert_eq!(dispatch.html.as_deref(), Some("<p>Bob follows you.</p>"));
}

#[test]
fn what_an_event_is_about() {
    let about = |resource: Option<&str>, payload| {
        let workflows = workflows(|one| one.resource = resource.map(str::to_owned));
        let planner = Planner::new(&workflows, &occasion("e", payload)).unwrap();
        planner.subject().resource_id.clone()
    };
    let some = |text: &str| Some(format!("UserFollowed:{text}"));
    assert_eq!(about(None, who()), None);
    assert_eq!(about(Some("{{ payload.followerId }}"), who()), some("b-1"));
    assert_eq!(about(Some(""), who()), some("b-1"));
    assert_eq!(
        about(Some(""), json!({"who": 1, "postId": 3, "resourceId": ""})),
        some("3")
    );
    assert_eq!(about(Some(""), json!({"who": 1})), None);
    assert_eq!(
        about(Some("{{ payload.who }}"), json!({"who": " \u{202e}"})),
        None
    );
    let workflows = workflows(|one| one.resource = Some("{{ payload.postId }}".into()));
    for payload in [who(), json!({"postId": "x".repeat(256)})] {
        let refused = Planner::new(&workflows, &occasion("e", payload)).err().unwrap();
        assert!(matches!(refused, BoardError::Occasion(_)), "{refused}");
    }
}

#[test]
fn periods_count_from_one() {
    let day = Duration::from_secs(86_400);
    let of = |period, at| {
        let workflows = workflows(|one| {
            one.resource = Some(String::new());
            one.period = period;
        });
        let mut occasion = occasion("e", who());
        occasion.at = Timestamp(at);
        Planner::new(&workflows, &occasion).unwrap().subject().period
    };
    assert_eq!(of(None, 86_400_000_000), 0);
    assert_eq!(of(Some(day), 0), 1);
    assert_eq!(of(Some(day), 86_399_999_999), 1);
    assert_eq!(of(Some(day), 86_400_000_000), 2);
    assert_eq!(
        of(Some(day), -5),
        1,
        "what is before 1970 is no window of for ever"
    );
    assert_eq!(of(Some(Duration::MAX), i64::MAX), 2);
}

#[test]
fn what_nobody_has_words_for_is_refused() {
    let workflows = workflows(|_| {});
    let mut other = occasion("e", who());
    other.event_type = "Unheard".to_owned();
    let refused = Planner::new(&workflows, &other).err().unwrap().to_string();
    assert!(
        refused.contains("\"Unheard\"") && refused.contains("CUSTOMER"),
        "{refused}"
    );
    let refused = Planner::new(&workflows, &occasion("e", json!({}))).err();
    let refused = refused.unwrap().to_string();
    assert!(refused.contains("payload.who"), "{refused}");
    assert!(Planner::going_on(&workflows, "gone", &occasion("e", who())).is_err());
}

#[test]
fn a_digest_tells_of_all_its_events() {
    let workflows = workflows(|one| {
        one.digest = Some(Digest {
            window: Duration::from_secs(60),
        });
        let body = "{{ count }}: {% for event in events %}{{ event.payload.who }} {% endfor %}";
        let words = crate::examples::words("{{ payload.who }} and others", body);
        one.templates.insert((Channel::InApp, "en".to_owned()), words);
    });
    let occasions = [
        occasion("e1", json!({"who": "Bob"})),
        occasion("e2", json!({"who": "Cy"})),
    ];
    let due = Due {
        id: 3,
        workflow: "followed".to_owned(),
        user: "ann".to_owned(),
    };
    let latest_first = occasions.iter().rev();
    let collected = Collected {
        texts: latest_first.map(|one| keep(one).unwrap()).collect(),
        count: 12,
    };
    let (planner, plan) = Planner::tell(&workflows, &due, collected, &[member("ann", None)]).unwrap();
    let words = &plan.notifications[0].words;
    assert_eq!((&*words.title, &*words.body), ("Cy and others", "12: Bob Cy"));
    let subject = planner.subject();
    assert_eq!(
        (&*subject.event_id, &subject.resource_id),
        ("notification-digest-3", &None)
    );
    let missing = Planner::new(&workflows, &occasion("e3", json!({}))).err();
    assert!(
        missing
            .expect("it is refused while it can be")
            .to_string()
            .contains("payload.who")
    );
}

/// Each of them passed by itself; together they are longer than html may be, or take more than a template's fuel.
#[test]
fn a_digest_that_is_too_much_leaves_out_the_oldest() {
    let told = |html: &str, payload: serde_json::Value, events: usize| {
        let workflows = workflows(|one| {
            one.digest = Some(Digest {
                window: Duration::from_secs(60),
            });
            let mail = one.templates.get_mut(&(Channel::Email, "en".to_owned())).unwrap();
            mail.insert(
                "title".to_owned(),
                "{{ count }}, {{ events | length }} shown".to_owned(),
            );
            mail.insert("html".to_owned(), html.to_owned());
        });
        let one = occasion("e", payload);
        Planner::later(&workflows, &one).unwrap();
        let collected = Collected {
            texts: vec![keep(&one).unwrap(); events],
            count: 1_000,
        };
        let due = Due {
            id: 3,
            workflow: "followed".to_owned(),
            user: "ann".to_owned(),
        };
        let ann = [member("ann", Some("ann@example.com"))];
        let (_, plan) = Planner::tell(&workflows, &due, collected, &ann).unwrap();
        plan.notifications[0].deliveries[1].words.title.clone()
    };
    let long = json!({"who": "Bob", "text": "x".repeat(40_000)});
    let all = "{% for event in events %}{{ event.payload.text }}{% endfor %}";
    assert_eq!(told(all, long, 6), "1000, 3 shown");
    let many = json!({"who": "Bob", "list": vec![1; 1_500]});
    let all = "{% for event in events %}{% for one in event.payload.list %}{{ one }}{% endfor %}{% endfor %}";
    let few = told(all, many, 64);
    assert!(few.starts_with("1000, ") && !few.contains("64"), "{few}");
}

/// A letter of a hundred thousand characters for each of a thousand members is as much as the memory of the process.
#[test]
fn a_chunk_ends_where_its_words_are_many() {
    let workflows = workflows(|workflow| {
        let mail = (Channel::Email, "en".to_owned());
        let words = workflow.templates.get_mut(&mail).unwrap();
        let html = "<p>{{ recipient.name }} {{ payload.text }}</p>";
        words.insert("html".to_owned(), html.to_owned());
    });
    let plan = |characters: usize, size: usize| {
        let payload = json!({"who": "Bob", "text": "x".repeat(characters)});
        let mut planner = Planner::new(&workflows, &occasion("e", payload)).unwrap();
        let members: Vec<Member> = (0..size)
            .map(|n| match n {
                0 => mutes(member("m", None), &[Channel::InApp, Channel::Email]),
                _ => member(&format!("m{n}"), Some("m@example.com")),
            })
            .collect();
        let plan = planner.plan(&members).unwrap();
        let counts = plan.counted(Counts::default());
        let (last, more) = counts.reached((&members, true));
        assert_eq!(last, Some(members[plan.looked_at - 1].recipient.id.as_str()));
        (plan.notifications.len(), plan.muted, more)
    };
    assert_eq!(plan(10, 200), (199, 1, false));
    let (planned, muted, more) = plan(100_000, 200);
    assert!((70..90).contains(&planned) && muted == 1 && more, "{planned}");
}

/// It is kept for each who is told, and read with a hundred others.
#[test]
fn what_is_too_long_to_be_collected_is_refused() {
    let workflows = workflows(|workflow| {
        workflow.digest = Some(Digest {
            window: Duration::from_secs(60),
        });
    });
    let members: Vec<Member> = (0..1_000).map(|n| member(&format!("m{n}"), None)).collect();
    let collected = |characters: usize| {
        let long = occasion("e", json!({"who": "Bob", "text": "x".repeat(characters)}));
        let planner = Planner::new(&workflows, &long).unwrap();
        planner
            .collected(&long, &members)
            .map(|(_, members)| members.len())
            .map_err(|error| error.to_string())
    };
    assert_eq!(collected(10), Ok(1_000));
    assert_eq!(collected(100_000), Ok(83));
    let refused = collected(LARGEST).unwrap_err();
    assert!(
        refused.contains("131072") && refused.contains("payload"),
        "{refused}"
    );
}

/// The only member who reads German may be the last of a million.
#[test]
fn words_of_every_language_are_tried_before_anybody_is_told() {
    let workflows = workflows(|workflow| {
        let broken = crate::examples::words("Neu", "{{ payload.wer }} folgt dir.");
        workflow
            .templates
            .insert((Channel::Email, "de".to_owned()), broken);
    });
    let refused = Planner::new(&workflows, &occasion("e", who())).err();
    let refused = refused.expect("refused").to_string();
    assert!(refused.contains("wer") && refused.contains("de"), "{refused}");
}

/// A payload that has something for each of those it is sent to, and an event for one of them.
#[test]
fn words_may_look_something_up_by_the_one_they_are_for() {
    let workflows = workflows(|workflow| {
        let words = crate::examples::words("Seat {{ payload.seats[recipient.id] }}", "");
        for parts in workflow.templates.values_mut() {
            *parts = words.clone();
        }
    });
    let ann = occasion("e", json!({"seats": {"ann": "1A"}}));
    let plan = Planner::new(&workflows, &ann)
        .unwrap()
        .plan(&[member("ann", None)]);
    assert_eq!(plan.unwrap().notifications[0].words.title, "Seat 1A");
    assert!(Planner::new(&workflows, &occasion("e", json!({"seats": {}}))).is_err());
}

/// Whoever wrote such an id into the table must not stop the others of the chunk.
#[test]
fn an_id_that_no_event_can_have_is_a_problem_of_its_own_deliveries() {
    let workflows = workflows(|_| {});
    let mut planner = Planner::new(&workflows, &occasion("e", who())).unwrap();
    let odd = member("a\tb", Some("ann@example.com"));
    let plan = planner.plan(&[odd]).unwrap();
    let [in_app, mail] = &plan.notifications[0].deliveries[..] else {
        panic!("two channels")
    };
    assert!(in_app.problem.is_none() && mail.problem.is_some_and(|problem| problem.contains("id")));
    assert_eq!(
        mail.event(1, (planner.subject(), &plan.notifications[0])),
        Ok(None)
    );
}
