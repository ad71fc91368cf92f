//! The link in a mail.

use postrider_core::Secret;
use postrider_notify::Channel;
use postrider_notify::http::{Options, sign, sign_unsubscribe};

use crate::support::{Served, served, with_people};

const SECRET: &str = "battery-staple";
/// What a mail program sends (RFC 8058).
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";
const ONE_CLICK: &[u8] = b"List-Unsubscribe=One-Click";

fn link(id: &str, signature: &str, more: &str) -> String {
    format!("/unsubscribe/{id}?signature={signature}{more}")
}

fn signed(id: &str) -> String {
    sign_unsubscribe(&Secret::new(SECRET), id)
}

/// Whether ada wants mail of these categories.
async fn wants(served: &Served, category: &str) -> bool {
    let ada = served.board.recipient("ada").await.unwrap().unwrap();
    assert!(
        ada.preferences.allow(Channel::InApp, category),
        "nothing but mail is meant"
    );
    ada.preferences.allow(Channel::Email, category)
}

#[tokio::test]
async fn one_click_turns_mail_of_the_category_off() {
    let served = with_people(Options::default().secret(SECRET), &["ada"]).await;
    let link = link("ada", &signed("ada"), "&category=orders");
    let page = served.ask().get(&link).await;
    assert_eq!(page.code, 200);
    assert!(page.body.contains("<form method=\"post\">"), "{}", page.body);
    assert!(wants(&served, "orders").await, "looking at it decides nothing");
    for _ in 0..2 {
        let done = served.ask().raw("POST", &link, FORM, ONE_CLICK).await;
        assert_eq!(done.code, 200, "{}", done.body);
        assert!(!wants(&served, "orders").await);
        assert!(wants(&served, "social").await);
    }
}

#[tokio::test]
async fn without_a_category_all_mail_is_off() {
    let served = with_people(Options::default().secret(SECRET), &["ada"]).await;
    let done = served
        .ask()
        .raw("POST", &link("ada", &signed("ada"), ""), FORM, ONE_CLICK)
        .await;
    assert_eq!(done.code, 200, "{}", done.body);
    assert!(!wants(&served, "orders").await && !wants(&served, "social").await);
}

/// Neither the signature of a feed nor that of somebody else, and none without a secret, on loopback too. And what is
/// in a mail opens no feed.
#[tokio::test]
async fn only_the_signature_in_the_mail_counts() {
    let with = with_people(Options::default().secret(SECRET), &["ada", "ben"]).await;
    let feeds = sign(&Secret::new(SECRET), "ada");
    for wrong in [feeds, signed("ben"), String::new()] {
        let refused = with
            .ask()
            .raw("POST", &link("ada", &wrong, ""), FORM, ONE_CLICK)
            .await;
        assert_eq!(refused.refused(403), "signature");
    }
    let none = with.ask().raw("POST", "/unsubscribe/ada", FORM, ONE_CLICK).await;
    assert_eq!(none.refused(403), "signature");
    assert!(wants(&with, "orders").await);
    let feed = with
        .ask()
        .get(&format!("/feed/ada?signature={}", signed("ada")))
        .await;
    assert_eq!(feed.refused(403), "signature");
    let without = served(Options::default()).await;
    let refused = without
        .ask()
        .raw("POST", "/unsubscribe/ada", FORM, ONE_CLICK)
        .await;
    assert_eq!(refused.refused(403), "signature");
}

/// A signature is not of a category, so the bound of what a person may say holds here as well.
#[tokio::test]
async fn nobody_says_more_than_they_may() {
    let served = with_people(Options::default().secret(SECRET), &["ada"]).await;
    let mut refused = 0;
    for n in 0..201 {
        let link = link("ada", &signed("ada"), &format!("&category=c{n}"));
        let done = served.ask().raw("POST", &link, FORM, ONE_CLICK).await;
        refused += usize::from(done.code == 422);
    }
    assert_eq!(refused, 1);
}
