//! What people want to hear of, and by which channel.

use postrider_notify::{Channel, DeliveryState, Recipient};

use super::Bench;
use super::stage::{accept, crowd, finish, followed, menu, person, rows, says, with};

pub(crate) async fn what_is_not_wanted_is_not_stored(bench: &dyn Bench) {
    let board = with(bench, &["ann", "bea", "cy"]).await;
    for (user, preference) in [
        ("ann", says(Some(Channel::Email), None, false)),
        ("bea", says(None, Some("social"), false)),
        ("cy", says(None, None, false)),
        ("cy", says(Some(Channel::Email), Some("social"), true)),
    ] {
        assert!(board.prefer(user, &preference).await.expect("kept"));
    }
    let channels = |one: &postrider_notify::Accepted| -> Vec<Channel> {
        let deliveries = one.one.iter().flat_map(|one| &one.deliveries);
        deliveries.map(|delivery| delivery.channel).collect()
    };
    let ann = accept(&board, followed("e1", "ann", "bob")).await;
    assert_eq!((ann.stored, channels(&ann)), (1, vec![Channel::InApp]));
    let bea = accept(&board, followed("e1", "bea", "bob")).await;
    assert_eq!((bea.stored, bea.muted, bea.one), (0, 1, None));
    let cy = accept(&board, followed("e1", "cy", "bob")).await;
    assert_eq!((cy.stored, channels(&cy)), (1, vec![Channel::Email]));
    assert_eq!(rows(bench).await, [2, 2, 0, 0, 1]);
}

pub(crate) async fn a_change_counts_for_what_is_stored_after_it(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 1_500).await;
    let first = accept(&board, menu("e1", "soup")).await;
    assert_eq!((first.stored, first.goes_on), (1_000, true));
    // One of each half: the first was told already, the second is not.
    for user in ["u00007", "u01234"] {
        let muted = says(None, Some("menu"), false);
        assert!(board.prefer(user, &muted).await.expect("kept"));
    }
    let mail_only = says(Some(Channel::InApp), None, false);
    assert!(board.prefer("u01235", &mail_only).await.expect("kept"));
    let step = board.step().await.expect("a step").expect("it goes on");
    assert_eq!((step.stored, step.muted), (499, 1));
    assert_eq!(finish(&board).await, 0);
    let of = async |user: &str| {
        let sql = format!("SELECT count(*) FROM notification WHERE user_id = '{user}'");
        bench.number(&sql).await
    };
    assert_eq!(
        (of("u00007").await, of("u01234").await, of("u01235").await),
        (1, 0, 1)
    );
    assert_eq!(rows(bench).await[1], 1_499 * 2 - 1);
}

pub(crate) async fn what_cannot_be_sent_is_said_and_holds_up_nothing(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    let odd = |id: &str, email: Option<&str>| Recipient {
        email: email.map(str::to_owned),
        ..person(id)
    };
    for recipient in [
        odd("bea", None),
        odd("cy", Some("a@b\r\nBcc: c@d.e")),
        odd("dan", Some("dan")),
    ] {
        board.put(&recipient).await.expect("put");
    }
    let ids = ["ann", "bea", "cy", "dan"].map(str::to_owned);
    board.subscribe("soup", &ids).await.expect("subscribed");
    assert_eq!(accept(&board, menu("e1", "soup")).await.stored, 4);
    assert_eq!(rows(bench).await, [4, 8, 0, 0, 1], "one can be sent");
    let all = board.of_event("e1", 10).await.expect("listed");
    let states = all.iter().map(|one| (&*one.user_id, &one.deliveries[1]));
    for (user, mail) in states.filter(|(user, _)| *user != "ann") {
        assert!(
            matches!(&mail.state, DeliveryState::Impossible { reason } if reason.contains("email")),
            "{user}: {mail:?}"
        );
        assert_eq!(mail.event_id, None);
    }
}
