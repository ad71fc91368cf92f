//! Where folders end, and what lies beyond.

use std::fs;

use postrider_core::{BoxFuture, Restore, Timestamp};

use super::super::{archived_until, restore, verify, write};
use super::with_sqlite::{outbox, write_until};
use crate::leave::Leave;

/// Each range begins or ends in a folder that is not there, or lies in it.
#[tokio::test]
async fn a_range_that_reaches_into_a_missing_folder_is_restored_in_part_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("archive");
    let opened = outbox(folder.path(), 40).await;
    let first = write_until(&opened, &dir, 10_000).await;
    write_until(&opened, &dir, 20_000).await;
    let third = write_until(&opened, &dir, 30_000).await;
    write_until(&opened, &dir, 50_000).await;
    fs::remove_dir_all(first.folder.unwrap()).unwrap();
    fs::remove_dir_all(third.folder.unwrap()).unwrap();
    let range = |since, until| Restore {
        since: Some(Timestamp(since)),
        until: Some(Timestamp(until)),
    };
    for (range, rows, missing) in [
        (range(12_000, 18_000), 6, 0),
        (range(5_000, 15_000), 5, 1),
        (range(15_000, 25_000), 5, 1),
        (range(25_000, 35_000), 5, 1),
        (range(5_000, 25_000), 10, 2),
    ] {
        let restored = restore(&opened, &dir, range, None, "ada", |_| {}).await.unwrap();
        let told = (restored.job.touched, restored.missing.len());
        assert_eq!(told, (rows, missing), "{range:?}: {:?}", restored.missing);
    }
    let jobs = opened.console.jobs(None, 10).await.unwrap().len();
    let inside = range(22_000, 28_000);
    let refused = restore(&opened, &dir, inside, None, "ada", |_| {}).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("folders are missing from 1970"), "{refused}");
    assert_eq!(opened.console.jobs(None, 10).await.unwrap().len(), jobs);
}

/// A job does not go back to a folder that was mounted after it had passed, and must not say that it has all of it.
#[tokio::test]
async fn a_folder_that_comes_back_behind_a_restore_is_told_as_unread() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("archive");
    let opened = outbox(folder.path(), 40).await;
    let first = write_until(&opened, &dir, 10_000).await.folder.unwrap();
    write_until(&opened, &dir, 50_000).await;
    let away = folder.path().join("away");
    fs::rename(&first, &away).unwrap();
    let range = Restore {
        since: Some(Timestamp(5_000)),
        until: None,
    };
    let part = restore(&opened, &dir, range, None, "ada", |_| {}).await.unwrap();
    assert_eq!(part.missing.len(), 1, "{:?}", part.missing);
    let again = async || {
        let job = Some(part.job.id.clone());
        let again = restore(&opened, &dir, Restore::default(), job, "ada", |_| {}).await;
        again.unwrap().missing
    };
    assert_eq!(again().await, part.missing, "it is still away");
    fs::rename(&away, &first).unwrap();
    let missing = again().await;
    assert!(missing[0].contains("5 rows"), "{missing:?}");
}

/// History must not be removed because of a file that is not there any more.
#[tokio::test]
async fn an_archive_that_has_lost_a_file_says_nothing_of_what_may_go() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("archive");
    let opened = outbox(folder.path(), 10).await;
    let first = write_until(&opened, &dir, 5_000).await.folder.unwrap();
    write_until(&opened, &dir, 9_000).await;
    assert!(archived_until(&dir, "main").is_ok());
    let part = first.join("part-000001.jsonl.gz");
    let good = fs::read(&part).unwrap();
    fs::write(&part, &good[1..]).unwrap();
    for _ in ["cut short", "removed"] {
        let refused = archived_until(&dir, "main").unwrap_err().to_string();
        assert!(refused.contains("part-000001"), "{refused}");
        let _ = fs::remove_file(&part);
    }
    fs::write(&part, &good).unwrap();
    assert_eq!(archived_until(&dir, "main").unwrap(), Some(Timestamp(9_000)));
}

/// What it had would be removed as if it were in a file. Moved away with all behind it, it is written anew.
#[tokio::test]
async fn an_archive_that_has_lost_a_folder_says_nothing_of_what_may_go() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("archive");
    let opened = outbox(folder.path(), 30).await;
    let first = write_until(&opened, &dir, 10_000).await.folder.unwrap();
    let second = write_until(&opened, &dir, 20_000).await.folder.unwrap();
    let third = write_until(&opened, &dir, 40_000).await.folder.unwrap();
    fs::remove_dir_all(&second).unwrap();
    let refused = archived_until(&dir, "main").unwrap_err().to_string();
    assert!(refused.contains("one is missing"), "{refused}");
    let away = folder.path().join("away/main");
    fs::create_dir_all(&away).unwrap();
    fs::rename(&third, away.join(third.file_name().unwrap())).unwrap();
    assert_eq!(archived_until(&dir, "main").unwrap(), Some(Timestamp(10_000)));
    assert_eq!(write_until(&opened, &dir, 40_000).await.rows, 21);
    assert_eq!(archived_until(&dir, "main").unwrap(), Some(Timestamp(40_000)));
    assert_eq!(verify(&dir, "main").unwrap().faults, [] as [String; 0]);
    let apart = away.parent().unwrap();
    let restored = restore(&opened, apart, Restore::default(), None, "ada", |_| {}).await;
    assert_eq!(
        restored.unwrap().job.touched,
        11,
        "what was moved away can be read"
    );
    fs::remove_dir_all(&first).unwrap();
    let oldest = archived_until(&dir, "main").unwrap();
    assert_eq!(oldest, Some(Timestamp(40_000)), "the oldest may go");
}

/// What is settled a moment later with an earlier time would be in no file, and be removed all the same.
#[tokio::test]
async fn what_may_still_be_followed_by_something_earlier_is_left_to_the_next_folder() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("archive");
    let opened = outbox(folder.path(), 3).await;
    let connection = rusqlite::Connection::open(folder.path().join("shop.db")).unwrap();
    let now = Timestamp::now().0;
    let (old, young) = (now - 120_000_000, now - 20_000_000);
    let sql = format!("UPDATE outbox_sent SET published_at = iif(seq = 1, {old}, {young})");
    connection.execute(&sql, []).unwrap();
    // As whoever has a clock that is ahead asks for it.
    assert_eq!(write_until(&opened, &dir, now + 3_600_000_000).await.rows, 1);
    let until = archived_until(&dir, "main").unwrap().unwrap();
    assert!(old < until.0 && until.0 < young, "{until} is not a minute ago");
}

/// Rows behind the last place of the archive, with times that it covers.
#[tokio::test]
async fn what_was_published_after_the_clock_was_set_back_is_in_the_next_folder() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("archive");
    let opened = outbox(folder.path(), 30).await;
    write_until(&opened, &dir, 20_000).await;
    assert_eq!(write_until(&opened, &dir, 25_000).await.rows, 5);
    let connection = rusqlite::Connection::open(folder.path().join("shop.db")).unwrap();
    let sql = "INSERT INTO outbox_sent (seq, event_id, destination, event_type, aggregate_type, aggregate_id,
            outcome, published_at)
         VALUES (31, 'late', 'd', 'T', 'A', '1', 'published', 12000),
                (32, 'later', 'd', 'T', 'A', '1', 'published', 12500)";
    connection.execute(sql, []).unwrap();
    assert_eq!(write_until(&opened, &dir, 40_000).await.rows, 6 + 2);
    assert_eq!(write_until(&opened, &dir, 50_000).await.rows, 0, "once");
    assert_eq!(verify(&dir, "main").unwrap().faults, [] as [String; 0]);
    let range = Restore {
        since: Some(Timestamp(12_000)),
        until: Some(Timestamp(13_000)),
    };
    let restored = restore(&opened, &dir, range, None, "ada", |_| {}).await.unwrap();
    assert_eq!(restored.job.touched, 1 + 2, "with those of the later folder");
}

struct Asked(u32);

impl Leave for Asked {
    fn to_go_on(&mut self) -> BoxFuture<'_, bool> {
        self.0 += 1;
        Box::pin(std::future::ready(true))
    }
}

/// Whoever asks too late has lost the claim when the first file is full, and begins anew the next night.
#[tokio::test]
async fn leave_is_asked_for_with_every_page() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("archive");
    let opened = outbox(folder.path(), 5_000).await;
    let mut asked = Asked(0);
    let written = write(&opened, &dir, Timestamp(i64::MAX / 2), &mut asked).await;
    assert_eq!(written.unwrap().unwrap().rows, 5_000);
    assert!(asked.0 >= 5, "asked {} times", asked.0);
}

/// Waited for, a pipe would hold up whoever writes or reads the archive for ever: the relay, too.
#[tokio::test]
async fn a_pipe_in_the_place_of_a_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("archive");
    let opened = outbox(folder.path(), 5).await;
    let first = write_until(&opened, &dir, 3_000).await.folder.unwrap();
    let pipe = |path: &std::path::Path| {
        fs::remove_file(path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    };
    pipe(&first.join("manifest.json"));
    let faults = verify(&dir, "main").unwrap().faults;
    assert!(
        faults.len() == 1 && faults[0].contains("manifest.json"),
        "{faults:?}"
    );
    assert!(archived_until(&dir, "main").is_err());
    pipe(&dir.join("main/.lock"));
    let mut asked = Asked(0);
    let refused = write(&opened, &dir, Timestamp(i64::MAX / 2), &mut asked).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains(".lock"), "{refused}");
}
