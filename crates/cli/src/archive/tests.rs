//! An archive of a real outbox: written, verified, damaged, read back.

use std::fs;
use std::path::Path;

use postrider_core::{HistoryRow, JobState, Payload, Seq, Timestamp};

use super::*;

fn row(seq: u128, payload: Payload) -> HistoryRow {
    HistoryRow {
        seq: Seq(seq),
        destination: Some("mq/orders".into()),
        outcome: "published".to_owned(),
        event_id: format!("e{seq}").into(),
        event_type: "Placed".to_owned(),
        aggregate: ("ORDER".to_owned(), "1".to_owned()),
        event_key: None,
        payload,
        content_type: Some("text/plain".to_owned()),
        headers: Some("{\"a\":\"\\u00e9\"}".to_owned()),
        priority: Some(-3),
        available_at: None,
        created_at: Some(Timestamp(5)),
        enqueued_at: Some(Timestamp(6)),
        replay: None,
        reason: None,
        receipt: Some("offset 7".to_owned()),
        attempts: 1,
        failures: 2,
        error: Some(("rejected".to_owned(), "not \u{1b}wanted".to_owned())),
        last_failed_at: Some(Timestamp(7)),
        published_at: Timestamp(8),
    }
}

#[test]
fn a_line_is_read_back_as_it_was_and_a_changed_one_is_not() {
    let payloads = [
        Payload::Text("{\"n\": 1.0,\t\"n\": 2}".to_owned()),
        Payload::Text("\u{0}\u{fffd}\r\n".to_owned()),
        Payload::Bytes(vec![0, 255, 10, 13].into()),
        Payload::Tombstone,
    ];
    for payload in payloads {
        let row = row(1, payload);
        let text = line::write(&row);
        assert!(!text.contains('\n'));
        assert_eq!(line::read(&text), Ok(row));
        let changed = text.replace("\"attempts\":1", "\"attempts\":2");
        assert!(line::read(&changed).unwrap_err().contains("checksum"));
    }
}

#[test]
fn a_manifest_names_files_of_its_own_folder_only_and_other_folders_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("2026-01-01T00-00-00.000000Z");
    for other in [&folder, &dir.path().join("lost+found"), &dir.path().join("2025")] {
        fs::create_dir(other).unwrap();
    }
    assert_eq!(
        manifest::folders(dir.path()).unwrap(),
        std::slice::from_ref(&folder)
    );
    for (file, is_fine) in [
        ("0001.jsonl.gz", true),
        ("../../shop.db", false),
        ("\u{1b}[31mred", false),
        ("/etc/hosts", false),
        ("", false),
    ] {
        let mut written = manifest::Manifest::new("main", None, 1, None);
        written.parts.push(manifest::Part {
            file: file.to_owned(),
            rows: 0,
            bytes: 0,
            sha256: String::new(),
            text_sha256: String::new(),
        });
        fs::write(folder.join(manifest::NAME), written.sealed().unwrap()).unwrap();
        assert_eq!(manifest::open(&folder).is_ok(), is_fine, "{file}");
    }
}

#[cfg(feature = "sqlite")]
mod ends;

#[cfg(feature = "sqlite")]
mod with_sqlite {
    use postrider_core::{BoxFuture, JobId, JobKind, NewJob, Replay, Restore};

    use super::*;
    use crate::config::{DEFAULT, Origin, parse};
    use crate::leave::Leave;
    use crate::wire::{self, Missing, Opened};

    pub(super) async fn outbox(folder: &Path, rows: usize) -> Opened {
        let file = folder.join("shop.db");
        let config = parse(Origin::File("postrider.toml".into()), DEFAULT, []).unwrap();
        let mut settings = config.outboxes["main"].clone();
        settings.place = crate::config::Place::Sqlite(file.clone());
        let opened = wire::open("main", &settings, Missing::Create).unwrap();
        opened.schema.up().await.unwrap();
        let connection = rusqlite::Connection::open(file).unwrap();
        let sql = format!(
            "INSERT INTO outbox_sent (seq, event_id, destination, event_type, aggregate_type, aggregate_id, payload,
                    payload_bytes, outcome, published_at)
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
             SELECT i, 'e' || i, 'd', 'T', 'A', i % 7, iif(i % 3 = 0, NULL, '{{\"n\": ' || i || '}}'),
                    iif(i % 3 = 0, randomblob(20), NULL), 'published', i * 1000 FROM n"
        );
        connection.execute_batch(&sql).unwrap();
        opened
    }

    struct May(bool);

    impl Leave for May {
        fn to_go_on(&mut self) -> BoxFuture<'_, bool> {
            Box::pin(std::future::ready(self.0))
        }
    }

    pub(super) async fn write_until(opened: &Opened, dir: &Path, until: i64) -> Written {
        let written = write(opened, dir, Timestamp(until), &mut May(true))
            .await
            .unwrap();
        written.expect("nobody stopped it")
    }

    fn part_of(folder: &Path) -> std::path::PathBuf {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries
            .into_iter()
            .find(|path| path.extension().is_some_and(|end| end == "gz"))
            .unwrap()
    }

    #[tokio::test]
    async fn every_row_is_in_one_folder_and_a_flipped_byte_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("archive");
        let opened = outbox(folder.path(), 3_000).await;
        assert_eq!(archived_until(&dir, "main").unwrap(), None);
        let first = write_until(&opened, &dir, 1_000_000).await;
        assert_eq!(first.rows, 999);
        assert_eq!(
            write_until(&opened, &dir, 1_000_000).await.rows,
            0,
            "nothing is written twice"
        );
        assert_eq!(write_until(&opened, &dir, 9_000_000).await.rows, 2_001);
        assert_eq!(archived_until(&dir, "main").unwrap(), Some(Timestamp(9_000_000)));
        let verified = verify(&dir, "main").unwrap();
        assert_eq!((verified.folders, verified.rows), (2, 3_000));
        assert_eq!(verified.faults, [] as [String; 0]);
        let stranger = first.folder.clone().unwrap().join("part-000009.jsonl.gz");
        fs::write(&stranger, "by hand").unwrap();
        let verified = verify(&dir, "main").unwrap();
        assert_eq!(
            (verified.faults.len(), verified.strangers),
            (0, vec![stranger.clone()])
        );
        let beside = dir.join("main/notes.txt");
        fs::write(&beside, "by hand").unwrap();
        assert_eq!(verify(&dir, "main").unwrap().strangers, [beside, stranger]);
        // Under the name of another outbox it does not say what may be removed there.
        fs::rename(dir.join("main"), dir.join("orders")).unwrap();
        let foreign = archived_until(&dir, "orders").unwrap_err();
        assert!(foreign.to_string().contains("the outbox \"main\""), "{foreign}");
        fs::rename(dir.join("orders"), dir.join("main")).unwrap();

        let part = part_of(&first.folder.unwrap());
        let good = fs::read(&part).unwrap();
        for place in [0, good.len() / 3, good.len() / 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[place] ^= 1;
            fs::write(&part, bad).unwrap();
            let faults = verify(&dir, "main").unwrap().faults;
            assert_eq!(faults.len(), 1, "byte {place}");
            assert!(faults[0].contains("part-000001.jsonl.gz"), "{faults:?}");
        }
    }

    /// Of the last manifest too, which no other file has a checksum of.
    #[tokio::test]
    async fn a_flipped_byte_in_a_manifest_is_found_wherever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("archive");
        let opened = outbox(folder.path(), 30).await;
        for until in [10_000, 40_000] {
            let written = write_until(&opened, &dir, until).await.folder.unwrap();
            let file = written.join(manifest::NAME);
            let good = fs::read(&file).unwrap();
            for place in 0..good.len() {
                let mut bad = good.clone();
                bad[place] ^= 1;
                fs::write(&file, bad).unwrap();
                let faults = verify(&dir, "main").unwrap().faults;
                assert_eq!(faults.len(), 1, "byte {place}: {faults:?}");
                assert!(faults[0].contains(file.to_str().unwrap()), "{faults:?}");
            }
            fs::write(&file, good).unwrap();
        }
    }

    #[tokio::test]
    async fn nothing_of_a_damaged_archive_is_restored() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("archive");
        let opened = outbox(folder.path(), 30).await;
        write_until(&opened, &dir, 10_000).await;
        let second = write_until(&opened, &dir, 40_000).await.folder.unwrap();
        let part = part_of(&second);
        let mut bytes = fs::read(&part).unwrap();
        bytes[20] ^= 4;
        fs::write(&part, bytes).unwrap();
        let refused = restore(&opened, &dir, Restore::default(), None, "ada", |_| {}).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(part.to_str().unwrap()), "{refused}");
        assert_eq!(
            opened.console.jobs(None, 10).await.unwrap(),
            [],
            "no job was begun"
        );

        fs::remove_dir_all(&second).unwrap();
        let third = write_until(&opened, &dir, 50_000).await.folder.unwrap();
        let file = third.join(manifest::NAME);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("\"rows\": 21", "\"rows\": 20")).unwrap();
        let refused = restore(&opened, &dir, Restore::default(), None, "ada", |_| {}).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(file.to_str().unwrap()), "{refused}");
    }

    #[tokio::test]
    async fn one_writes_at_a_time_and_what_a_killed_one_left_goes() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("archive");
        let opened = outbox(folder.path(), 30).await;
        let left = dir.join("main/2026-01-01T00-00-00.000000Z.unfinished");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("part-000001.jsonl.gz"), "half").unwrap();
        let lock = fs::File::create(dir.join("main/.lock")).unwrap();
        lock.lock().unwrap();
        let refused = write(&opened, &dir, Timestamp(40_000), &mut May(true)).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("somebody else"), "{refused}");
        assert!(left.exists(), "it may be what the other one is making");
        drop(lock);
        assert_eq!(write_until(&opened, &dir, 40_000).await.rows, 30);
        assert!(!left.exists());
    }

    #[tokio::test]
    async fn a_folder_that_is_missing_in_between_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("archive");
        let opened = outbox(folder.path(), 30).await;
        write_until(&opened, &dir, 10_000).await;
        let second = write_until(&opened, &dir, 20_000).await;
        write_until(&opened, &dir, 40_000).await;
        fs::remove_dir_all(second.folder.unwrap()).unwrap();
        let faults = verify(&dir, "main").unwrap().faults;
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains("missing"), "{faults:?}");
    }

    #[tokio::test]
    async fn what_is_restored_is_replayed_byte_for_byte() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("archive");
        let opened = outbox(folder.path(), 400).await;
        write_until(&opened, &dir, 1_000_000).await;
        let connection = rusqlite::Connection::open(folder.path().join("shop.db")).unwrap();
        let payloads = |table: &str| -> Vec<(String, Option<String>, Option<Vec<u8>>)> {
            let sql = format!("SELECT event_id, payload, payload_bytes FROM {table} ORDER BY event_id");
            let mut statement = connection.prepare(&sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
            rows.unwrap().map(Result::unwrap).collect()
        };
        let before = payloads("outbox_sent");
        connection.execute("DELETE FROM outbox_sent", []).unwrap();
        let mut steps = 0;
        let job = restore(&opened, &dir, Restore::default(), None, "ada", |_| steps += 1)
            .await
            .unwrap()
            .job;
        assert_eq!((job.state, job.touched, steps), (JobState::Done, 400, 1));
        let replay = NewJob {
            id: JobId::new(),
            kind: JobKind::Replay(Replay {
                restored: Some(job.id),
                ..Replay::default()
            }),
            filter: Default::default(),
            actor: "ada".to_owned(),
        };
        let replay = opened.console.begin(replay).await.unwrap();
        let step = opened.console.step(replay.id, 1_000).await.unwrap();
        assert_eq!(step.job.touched, 400);
        assert_eq!(payloads("outbox_parked"), before);
    }

    #[tokio::test]
    async fn a_restore_goes_on_in_its_own_range_whatever_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("archive");
        let opened = outbox(folder.path(), 1_500).await;
        write_until(&opened, &dir, 2_000_000).await;
        let range = Restore {
            since: Some(Timestamp(200_000)),
            until: Some(Timestamp(1_400_000)),
        };
        let begun = NewJob {
            id: JobId::new(),
            kind: JobKind::Restore(range),
            filter: Default::default(),
            actor: "ada".to_owned(),
        };
        let begun = opened.console.begin(begun).await.unwrap().id;
        let pages = opened.upkeep.history(postrider_core::HistoryAsk {
            since: range.since,
            until: range.until,
            limit: 500,
            max_bytes: u64::MAX >> 1,
            ..Default::default()
        });
        // As one that was killed behind its first step left it.
        let name = fs::read_dir(dir.join("main"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .find(|name| !name.starts_with('.'))
            .unwrap();
        let at = postrider_core::Cursor(format!("{name}/part-000001.jsonl.gz:000001"));
        let rows = pages.await.unwrap().rows;
        opened.upkeep.restore(begun.clone(), rows, at).await.unwrap();
        let other = Restore { since: None, ..range };
        let refused = restore(&opened, &dir, other, Some(begun.clone()), "ada", |_| {}).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("another --since or --until"), "{refused}");
        let job = restore(&opened, &dir, Restore::default(), Some(begun), "ada", |_| {}).await;
        let job = job.unwrap().job;
        assert_eq!((job.state, job.touched), (JobState::Done, 1_200));
        let connection = rusqlite::Connection::open(folder.path().join("shop.db")).unwrap();
        let sql = "SELECT count(DISTINCT seq), min(seq), max(seq) FROM outbox_restored";
        let restored: (i64, i64, i64) = connection
            .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap();
        assert_eq!(restored, (1_200, 200, 1_399), "each row of its range once");
    }

    #[tokio::test]
    async fn no_archive_is_no_sound_archive() {
        let folder = tempfile::tempdir().unwrap();
        let opened = outbox(folder.path(), 3).await;
        let typo = folder.path().join("archvie");
        let verified = verify(&typo, "main").unwrap();
        assert_eq!(verified.faults.len(), 1, "{verified:?}");
        let refused = restore(&opened, &typo, Restore::default(), None, "ada", |_| {}).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("archvie"), "{refused}");
        let dir = folder.path().join("archive");
        write_until(&opened, &dir, 10_000).await;
        let later = Restore {
            since: Some(Timestamp(20_000)),
            until: None,
        };
        assert!(restore(&opened, &dir, later, None, "ada", |_| {}).await.is_err());
        // The first folder covers all time before it, and has no row of this one.
        let earlier = Restore {
            since: Some(Timestamp(-10)),
            until: Some(Timestamp(10)),
        };
        let refused = restore(&opened, &dir, earlier, None, "ada", |_| {}).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("no row of an archive of that time"), "{refused}");
        assert_eq!(
            opened.console.jobs(None, 10).await.unwrap(),
            [],
            "no job was begun"
        );
    }

    #[tokio::test]
    async fn a_run_that_was_stopped_leaves_no_folder_and_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("archive");
        let opened = outbox(folder.path(), 50).await;
        let stopped = write(&opened, &dir, Timestamp(1_000_000), &mut May(false))
            .await
            .unwrap();
        assert_eq!(stopped, None);
        assert_eq!(archived_until(&dir, "main").unwrap(), None);
        assert_eq!(write_until(&opened, &dir, 1_000_000).await.rows, 50);
        assert_eq!(verify(&dir, "main").unwrap().rows, 50);
    }
}
