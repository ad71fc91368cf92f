//! What the pages say must be so: the example is the tested one, links lead somewhere, and nothing that exists is
//! left out.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::workspace;
use crate::tidy::MAX_COLUMNS;

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every page that people read.
fn pages() -> Vec<PathBuf> {
    let root = workspace();
    let mut pages: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .iter()
        .map(|name| root.join(name))
        .collect();
    let docs = fs::read_dir(root.join("docs")).unwrap();
    pages.extend(docs.map(|entry| entry.unwrap().path()));
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages
}

/// The first example of a crate's documentation, without the lines that rustdoc hides.
fn example(source: &str) -> String {
    let text = source
        .lines()
        .filter_map(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line));
    let code = text
        .skip_while(|line| *line != "```")
        .skip(1)
        .take_while(|line| *line != "```");
    let shown: Vec<&str> = code
        .filter(|line| *line != "#" && !line.starts_with("# "))
        .collect();
    shown.join("\n")
}

#[test]
fn the_example_of_the_readme_is_the_one_that_is_tested() {
    let example = example(&read("crates/postrider/src/lib.rs"));
    assert!(example.contains("Relay::builder()"), "{example}");
    let block = format!("```rust\n{example}\n```");
    assert!(
        read("README.md").contains(&block),
        "the README must have this:\n{block}"
    );
}

#[test]
fn the_snippets_of_the_sql_contract_are_the_files_that_are_tested() {
    let page = read("docs/sql-contract.md");
    for (language, file) in [
        ("python", "python/outbox.py"),
        ("js", "node/outbox.mjs"),
        ("java", "java/Outbox.java"),
        ("go", "go/outbox/outbox.go"),
        ("sql", "psql/order.sql"),
        ("python", "python/outbox_sqlite.py"),
    ] {
        let text = read(&format!("testkit/languages/{file}"));
        let block = format!("```{language}\n{text}```");
        assert!(
            page.contains(&block),
            "docs/sql-contract.md must have testkit/languages/{file}:\n{block}"
        );
    }
}

#[test]
fn the_recipes_of_the_inbox_are_the_files_that_are_tested() {
    let page = read("docs/exactly-one-effect.md");
    for file in ["inbox.py", "inbox_sqlite.py"] {
        let text = read(&format!("testkit/languages/python/{file}"));
        let block = format!("```python\n{text}```");
        assert!(
            page.contains(&block),
            "docs/exactly-one-effect.md must have testkit/languages/python/{file}:\n{block}"
        );
    }
}

#[test]
fn the_monitoring_queries_of_the_page_are_those_that_are_tested() {
    let page = read("docs/sql-contract.md");
    for file in ["postgresql.sql", "sqlite.sql"] {
        let path = format!("xtask/src/scenario/monitoring_sql/{file}");
        let block = format!("```sql\n{}```", read(&path));
        assert!(
            page.contains(&block),
            "docs/sql-contract.md must have {path}:\n{block}"
        );
    }
}

#[test]
fn links_to_files_lead_somewhere() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            if path.is_empty() || link.contains("://") {
                continue;
            }
            let target = page.parent().unwrap_or(Path::new("")).join(path);
            assert!(target.exists(), "{}: {link} leads nowhere", page.display());
        }
    }
}

#[test]
fn every_key_of_the_configuration_is_described() {
    let page = read("docs/configuration.md");
    let reference = read("crates/cli/reference.toml");
    let keys = reference
        .lines()
        .filter(|line| !line.starts_with(['#', ' ', '[']))
        .filter_map(|line| line.split_once('=').map(|(key, _)| key.trim()));
    let tables = reference
        .lines()
        .filter_map(|line| line.strip_prefix('['))
        .filter_map(|line| line.split(']').next());
    let tables = tables.map(|table| {
        table
            .trim_start_matches('[')
            .split('.')
            .next()
            .unwrap_or_default()
    });
    for word in keys.chain(tables) {
        assert!(
            [format!("`{word}`"), format!("[{word}"), format!("] {word}`")]
                .iter()
                .any(|form| page.contains(form)),
            "docs/configuration.md does not describe {word:?}"
        );
    }
}

#[test]
fn every_kind_of_failure_is_described() {
    let page = read("docs/when-an-event-fails.md");
    for kind in postrider_core::ErrorKind::ALL {
        let word = format!("`{}`", kind.as_str());
        assert!(
            page.contains(&word),
            "docs/when-an-event-fails.md does not describe {word}"
        );
    }
}

#[test]
fn every_scenario_and_crate_is_described() {
    let page = read("docs/testing.md");
    let described: Vec<&str> = cells(&page).filter_map(|row| row.first().copied()).collect();
    for name in crate::scenario::names() {
        assert!(
            described.iter().any(|cell| cell.contains(&format!("`{name}`"))),
            "docs/testing.md does not describe {name}"
        );
    }
    for name in described.iter().flat_map(|cell| names(cell)) {
        let exists = crate::scenario::names().any(|known| known == name);
        assert!(exists, "docs/testing.md describes {name}, which does not exist");
    }
    let map = read("ARCHITECTURE.md");
    let manifest = read("Cargo.toml");
    // Lists of features look the same.
    let members = manifest
        .lines()
        .skip_while(|line| !line.starts_with("members"))
        .take_while(|line| *line != "]")
        .filter_map(|line| line.strip_prefix("    \"")?.strip_suffix("\","));
    for member in members {
        assert!(
            map.contains(&format!("`{member}`")),
            "the code map does not have {member}"
        );
    }
}

#[test]
fn the_scenarios_that_are_played_by_hand_are_named() {
    let page = read("docs/testing.md");
    let section = page.split("### ").find(|section| section.starts_with("Measured"));
    let described: Vec<&str> = cells(section.unwrap())
        .flat_map(|row| names(row[0]).collect::<Vec<_>>())
        .collect();
    let by_hand: Vec<&str> = crate::scenario::names()
        .filter(|name| !crate::scenario::tested().any(|tested| tested == *name))
        .collect();
    assert_eq!(described, by_hand);
}

/// Tables and code cannot be broken into lines; everything else can.
#[test]
fn prose_is_not_wider_than_code() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let mut in_code = false;
        for (number, line) in text.lines().enumerate() {
            in_code ^= line.trim_start().starts_with("```");
            let fits = in_code || line.starts_with('|') || line.chars().count() <= MAX_COLUMNS;
            assert!(fits, "{}:{}: too wide", page.display(), number + 1);
        }
    }
}

/// The rows of all tables of a page, cell by cell.
fn cells(page: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").collect())
}

/// What stands between backticks.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn sources(directory: &Path, all: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_fault_has_a_test_that_exists_or_says_why_not() {
    let page = read("docs/faults.md");
    let mut code = String::new();
    for directory in [
        "brokers", "crates", "examples", "sim", "stores", "testkit", "xtask",
    ] {
        sources(&workspace().join(directory), &mut code);
    }
    let scenarios: Vec<&str> = crate::scenario::names().collect();
    let mut ids = Vec::new();
    for row in cells(&page).filter(|row| row[0] != "id") {
        let [id, _, shown] = row[..] else {
            panic!("{row:?} has not three cells");
        };
        ids.push(id.to_owned());
        for name in names(shown) {
            let exists = scenarios.contains(&name) || code.contains(&format!("fn {name}("));
            assert!(exists, "docs/faults.md, {id}: there is no {name}");
        }
        let excused = ["Not shown yet", "Not of this pair", "There is none"];
        let excused = excused.iter().any(|words| shown.starts_with(words));
        assert!(
            names(shown).next().is_some() || excused,
            "docs/faults.md, {id}: {shown}"
        );
    }
    let sections = [("A", 33), ("B", 29), ("C", 18), ("D", 19), ("G", 17)];
    let all = sections.map(|(section, last)| (1..=last).map(move |n| format!("{section}{n}")));
    assert_eq!(ids, all.into_iter().flatten().collect::<Vec<_>>());
}
