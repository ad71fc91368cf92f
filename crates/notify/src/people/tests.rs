//! What a directory of the team's own may answer, and what is made of it.

use std::sync::Mutex;

use super::*;

/// Answers these pages, one after the other.
struct Script(Mutex<Vec<Vec<&'static str>>>);

impl People for Script {
    fn find<'a>(
        &'a self,
        _: &'a To,
        _: Option<&'a str>,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<Recipient>, PeopleError>> {
        Box::pin(async {
            let ids = self.0.lock().unwrap().remove(0);
            let person = |id: &'static str| Recipient {
                id: id.to_owned(),
                ..Recipient::default()
            };
            Ok(ids.into_iter().map(person).collect())
        })
    }
}

async fn answered(
    pages: &[&[&'static str]],
    to: To,
    after: Option<&str>,
) -> Result<(Vec<String>, bool), String> {
    let pages = pages.iter().map(|page| page.to_vec()).collect();
    let page = page(&Script(Mutex::new(pages)), (&to, after, 3)).await;
    let page = page.map_err(|error| causes(&error))?;
    Ok((page.people.into_iter().map(|one| one.id).collect(), page.is_last))
}

fn topic() -> To {
    To::Topic("soup".to_owned())
}

#[tokio::test]
async fn a_page_goes_on_until_an_empty_one() {
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        answered(&[&["a", "b"]], topic(), None).await,
        Ok((ids(&["a", "b"]), false))
    );
    assert_eq!(answered(&[&[]], topic(), Some("b")).await, Ok((ids(&[]), true)));
    let more = answered(&[&["a", "b", "c", "d"]], topic(), None).await;
    assert_eq!(more, Ok((ids(&["a", "b", "c"]), false)), "no more than asked for");
}

#[tokio::test]
async fn ids_that_no_event_can_carry_are_passed_over() {
    let pages: [&[&str]; 3] = [&["", "\0", "a\tb"], &["b\n", "c"], &[]];
    let page = answered(&pages, topic(), None).await.unwrap();
    assert_eq!(page, (vec!["c".to_owned()], false));
    let page = answered(&[&["a\tb"], &[]], topic(), None).await.unwrap();
    assert_eq!(page, (vec![], true), "the end is behind them");
}

#[tokio::test]
async fn another_order_is_refused() {
    for (pages, after) in [
        (vec!["b", "a"], None),
        (vec!["a", "a"], None),
        (vec!["a"], Some("a")),
        (vec!["a", "Z"], None),
    ] {
        let refused = answered(&[&pages], topic(), after).await.unwrap_err();
        assert!(refused.contains("order of their bytes"), "{refused}");
    }
}

#[tokio::test]
async fn for_one_nobody_else_is_taken() {
    let ann = || To::User("ann".to_owned());
    assert_eq!(
        answered(&[&["ann"]], ann(), None).await,
        Ok((vec!["ann".to_owned()], true))
    );
    assert_eq!(answered(&[&[]], ann(), None).await, Ok((vec![], true)));
    for pages in [["bob", "cid"].as_slice(), &["Ann"]] {
        let refused = answered(&[pages], ann(), None).await.unwrap_err();
        assert!(refused.contains("named others"), "{refused}");
    }
}

struct Never;

impl People for Never {
    fn find<'a>(
        &'a self,
        _: &'a To,
        _: Option<&'a str>,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<Recipient>, PeopleError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_answer_is_not_waited_for() {
    let failed = page(&Never, (&topic(), None, 3)).await.unwrap_err();
    assert!(causes(&failed).contains("longer than 10s"), "{failed}");
}
