//! People who are kept elsewhere: a directory of the team's own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use postrider_core::{Applied, BoxFuture};
use postrider_notify::{Board, BoardError, Channel, People, PeopleError, Recipient, To};
use serde_json::json;

use super::Bench;
use super::fanout::{refuse_soup, told_once};
use super::once::received;
use super::stage::{
    HOUR, accept, event, finish, followed, for_all, is_refused, liked, menu, person, rows, says, workflows,
};

/// A town in memory: all of it is in every topic but `ghosts`. It may be away, and it may fail for one topic alone.
#[derive(Default)]
struct Town {
    people: Mutex<BTreeMap<String, Recipient>>,
    away: AtomicBool,
    silent: Mutex<Option<String>>,
}

impl Town {
    fn of(ids: impl IntoIterator<Item = String>) -> Arc<Self> {
        let town = Arc::new(Self::default());
        ids.into_iter().for_each(|id| town.comes(&id));
        town
    }

    fn comes(&self, id: &str) {
        self.people
            .lock()
            .expect("sound")
            .insert(id.to_owned(), person(id));
    }

    fn goes(&self, id: &str) {
        self.people.lock().expect("sound").remove(id);
    }

    fn is_away(&self, away: bool) {
        self.away.store(away, Ordering::Relaxed);
    }
}

impl People for Town {
    fn find<'a>(
        &'a self,
        to: &'a To,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Recipient>, PeopleError>> {
        Box::pin(async move {
            let silent = self.silent.lock().expect("sound").clone();
            let asked = matches!(to, To::Topic(topic) if Some(topic) == silent.as_ref());
            if asked || self.away.load(Ordering::Relaxed) {
                return Err("the town hall is closed".into());
            }
            let meant = |id: &str| match to {
                To::User(one) => id == one,
                To::Topic(topic) => topic != "ghosts" && after.is_none_or(|after| id > after),
            };
            let people = self.people.lock().expect("sound");
            Ok(people
                .values()
                .filter(|one| meant(&one.id))
                .take(limit)
                .cloned()
                .collect())
        })
    }
}

async fn board(bench: &dyn Bench, town: &Arc<Town>) -> Arc<dyn Board> {
    let board = bench.open_own(workflows(), Arc::clone(town) as _).await;
    board.migrate().await.expect("migrated");
    board
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn crowd(size: usize) -> impl Iterator<Item = String> {
    (0..size).map(|n| format!("u{n:05}"))
}

async fn told(bench: &dyn Bench, event: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM notification WHERE event_id = '{event}'");
    bench.number(&sql).await
}

/// Nobody is in our tables, and everybody is found.
pub(crate) async fn it_is_asked_instead_of_the_tables(bench: &dyn Bench) {
    let board = board(bench, &Town::of(names(&["ann", "bea"]))).await;
    let one = accept(&board, followed("e1", "ann", "bob"))
        .await
        .one
        .expect("stored");
    assert_eq!(one.entry.body, "Name of ann: UserFollowed");
    let to = bench
        .texts("SELECT address FROM notification_delivery WHERE channel = 'email'")
        .await;
    assert_eq!(to, ["ann@example.com"]);
    let nobody = accept(&board, followed("e2", "cid", "bob")).await;
    assert_eq!(
        (nobody.stored, nobody.one),
        (0, None),
        "who is not known is nobody"
    );
    let all = accept(&board, menu("e3", "soup")).await;
    assert_eq!(
        (all.stored, finish(&board).await),
        (2, 1),
        "an empty page is the end"
    );
    assert_eq!(accept(&board, menu("e4", "ghosts")).await.stored, 0);
    assert_eq!(
        bench.number("SELECT count(*) FROM notification_recipient").await,
        0
    );
    assert!(!board.keeps_people());
    let ann = board.recipient("ann").await.expect("asked").expect("known");
    assert_eq!(ann.recipient, person("ann"));
    assert!(board.put(&person("dan")).await.is_err());
    assert!(board.subscribe("soup", &names(&["ann"])).await.is_err());
    assert!(board.unsubscribe("soup", &names(&["ann"])).await.is_err());
}

/// What they want is kept here, whoever they are.
pub(crate) async fn preferences_are_kept_here(bench: &dyn Bench) {
    let board = board(bench, &Town::of(names(&["ann", "bea"]))).await;
    let mute = says(None, Some("menu"), false);
    assert!(!board.prefer("cid", &mute).await.expect("asked"), "nobody");
    assert!(board.prefer("ann", &mute).await.expect("said"));
    assert!(
        board
            .prefer("ann", &says(Some(Channel::Push), None, false))
            .await
            .expect("said")
    );
    let ann = board.recipient("ann").await.expect("asked").expect("known");
    assert_eq!(ann.preferences.0.len(), 2);
    let accepted = accept(&board, menu("e1", "soup")).await;
    assert_eq!((accepted.stored, accepted.muted), (1, 1));
    assert!(board.remove("ann").await.expect("forgotten"));
    assert!(!board.remove("ann").await.expect("nothing is left"));
    finish(&board).await;
    assert_eq!(accept(&board, menu("e2", "soup")).await.stored, 2);
}

/// Neither a queue nor a transaction waits for it: a listener leaves everything to a step.
pub(crate) async fn a_listener_does_not_wait_for_it(bench: &dyn Bench) {
    let town = Town::of(names(&["ann"]));
    let board = board(bench, &town).await;
    town.is_away(true);
    let payload = r#"{"recipientType": "USER", "followerId": "bob", "who": "Bob"}"#;
    let event = received("UserFollowed", "e1", payload);
    let applied = bench
        .deliver_own(workflows(), Arc::clone(&town) as _, vec![event])
        .await;
    assert_eq!(applied.expect("applied"), [Applied::Now]);
    assert_eq!(
        rows(bench).await,
        [0, 0, 1, 0, 0],
        "nothing but that it is to be done"
    );
    // What cannot be told is refused now: words that are missing, and what is too long to be collected.
    let follower = json!({"recipientType": "USER", "followerId": "bob"});
    let long = json!({"recipientType": "USER", "postId": 1, "text": "x".repeat(200_000)});
    for (event_type, payload, reason) in [
        ("UserFollowed", follower, "payload.who"),
        ("PostLiked", long, "collected"),
    ] {
        let refused = vec![received(event_type, "e2", &payload.to_string())];
        let refused = bench.deliver_own(workflows(), Arc::clone(&town) as _, refused);
        let said = refused.await.expect_err("refused").to_string();
        assert!(said.contains(reason), "{said}");
    }
    let failed = board.step().await;
    assert!(matches!(failed, Err(BoardError::Directory(_))), "{failed:?}");
    let aside = board.fan_out("e1").await.expect("an answer").expect("a fan-out");
    let problem = aside.problem.expect("a problem");
    assert!(problem.contains("the town hall is closed"), "{problem}");
    town.is_away(false);
    assert_eq!(board.step().await.expect("a step"), None, "it stands aside");
    assert_eq!(board.resume().await.expect("resumed"), 1);
    let step = board.step().await.expect("a step").expect("it goes on");
    assert_eq!((step.stored, step.finished), (1, true));
    assert_eq!(board.unread("ann").await.expect("counted"), 1);
    assert_eq!(rows(bench).await, [1, 2, 1, 0, 1]);
}

/// An error is no refusal, and leaves nothing behind.
pub(crate) async fn while_it_fails_nothing_is_stored(bench: &dyn Bench) {
    let town = Town::of(crowd(1_100));
    let board = board(bench, &town).await;
    town.is_away(true);
    for occasion in [followed("e1", "u00001", "bob"), menu("e2", "soup")] {
        let failed = board.accept(occasion).await;
        assert!(matches!(failed, Err(BoardError::Directory(_))), "{failed:?}");
    }
    assert!(
        board.recipient("u00001").await.is_err(),
        "not known is something else"
    );
    assert_eq!(rows(bench).await, [0; 5]);
    town.is_away(false);
    assert_eq!(accept(&board, followed("e1", "u00001", "bob")).await.stored, 1);
    let accepted = accept(&board, menu("e2", "soup")).await;
    assert_eq!((accepted.stored, accepted.goes_on), (1_000, true));
    // Half-way, for this topic alone: another goes on.
    assert!(accept(&board, menu("e3", "salad")).await.goes_on);
    *town.silent.lock().expect("sound") = Some("soup".to_owned());
    assert!(matches!(board.step().await, Err(BoardError::Directory(_))));
    finish(&board).await;
    assert_eq!((told(bench, "e2").await, told(bench, "e3").await), (1_000, 1_100));
    *town.silent.lock().expect("sound") = None;
    board.resume().await.expect("resumed");
    finish(&board).await;
    assert_eq!(told(bench, "e2").await, 1_100);
}

/// What is left of a page is asked for again, behind the last who was told.
pub(crate) async fn long_words_make_short_chunks(bench: &dyn Bench) {
    let board = board(bench, &Town::of(crowd(120))).await;
    let letter = event("e1", "LetterSent", "", json!({"text": "x".repeat(150_000)}));
    let accepted = accept(&board, for_all("soup", letter)).await;
    assert!(
        (50..70).contains(&accepted.stored) && accepted.goes_on,
        "{accepted:?}"
    );
    finish(&board).await;
    told_once(bench, "e1", 120).await;
    let done = board.fan_out("e1").await.expect("an answer").expect("a fan-out");
    assert_eq!((done.stored, done.finished), (120, true));
}

/// It is not the directory that is at fault, and nothing of the chunk is there.
pub(crate) async fn what_the_database_refuses_stands_aside(bench: &dyn Bench) {
    let board = board(bench, &Town::of(crowd(1_100))).await;
    assert!(accept(&board, menu("e1", "soup")).await.goes_on);
    refuse_soup(bench, &board).await;
    let before = rows(bench).await;
    is_refused(board.step().await);
    assert_eq!(rows(bench).await, before);
    bench.run("DROP INDEX odd").await;
    assert_eq!(board.resume().await.expect("resumed"), 1);
    finish(&board).await;
    told_once(bench, "e1", 1_100).await;
}

/// Whoever comes behind the last page is told, whoever goes is not; nobody is told twice. A preference that is said
/// meanwhile counts.
pub(crate) async fn it_may_change_between_pages(bench: &dyn Bench) {
    let town = Town::of(crowd(2_200));
    let board = board(bench, &town).await;
    assert!(accept(&board, menu("e1", "soup")).await.goes_on);
    town.comes("u00500x");
    town.comes("u01500x");
    town.goes("u00007");
    town.goes("u01700");
    let mute = says(None, Some("menu"), false);
    assert!(board.prefer("u01800", &mute).await.expect("said"));
    let mut muted = 0;
    while let Some(step) = board.step().await.expect("a step") {
        assert_eq!(step.duplicates, 0);
        muted += step.muted;
    }
    assert_eq!(muted, 1);
    // All of them, with the one who came in time, less the one who left in time and the one who wants none.
    assert_eq!(told(bench, "e1").await, 2_200 + 1 - 1 - 1);
    let sql = "SELECT user_id FROM notification WHERE user_id IN ('u00007', 'u00500x', 'u01500x', 'u01700', 'u01800') \
        ORDER BY user_id";
    assert_eq!(bench.texts(sql).await, ["u00007", "u01500x"]);
}

pub(crate) async fn two_that_ask_store_each_page_once(bench: &dyn Bench) {
    let town = Town::of(crowd(3_300));
    let first = board(bench, &town).await;
    for id in ["e1", "e2"] {
        assert!(accept(&first, menu(id, "soup")).await.goes_on);
    }
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let board = bench.open_own(workflows(), Arc::clone(&town) as _).await;
        tasks.push(tokio::spawn(async move { finish(&board).await }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    finish(&first).await;
    for id in ["e1", "e2"] {
        let sql = format!("SELECT count(DISTINCT user_id) FROM notification WHERE event_id = '{id}'");
        assert_eq!((told(bench, id).await, bench.number(&sql).await), (3_300, 3_300));
    }
    let unfinished = "SELECT count(*) FROM notification_fanout WHERE finished_at IS NULL OR stored <> 3300";
    assert_eq!(bench.number(unfinished).await, 0);
}

/// Who it is for is asked when it is told, not when it is collected.
pub(crate) async fn a_digest_waits_for_it(bench: &dyn Bench) {
    let town = Town::of(names(&["ann", "bea"]));
    let board = board(bench, &town).await;
    for user in ["ann", "bea"] {
        assert_eq!(accept(&board, liked("e1", user)).await.collected, 1);
    }
    bench.age("notification_digest", "due_at", HOUR).await;
    town.is_away(true);
    for _ in 0..2 {
        let failed = board.digest().await;
        assert!(matches!(failed, Err(BoardError::Directory(_))), "{failed:?}");
    }
    assert!(!board.digest().await.expect("asked"), "both are put off");
    assert_eq!(rows(bench).await[0], 0);
    town.is_away(false);
    town.goes("bea");
    bench.age("notification_digest", "due_at", HOUR).await;
    while board.digest().await.expect("a digest") {}
    assert_eq!(bench.texts("SELECT user_id FROM notification").await, ["ann"]);
    assert_eq!(
        board.next_digest().await.expect("asked"),
        None,
        "nobody is left to tell"
    );
}
