//! One case after the other: what was said, and what should have been.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Result;
use crate::scenario::stage::Stage;

/// The configuration that a case starts from.
pub(super) const CONFIGURATION: &str = r#"[outbox.shop]
url = "sqlite:shop.db"

[broker.lines]
url = "file:lines.jsonl"

[[route]]
to = [{ broker = "lines" }]
"#;

/// What a command said.
pub(super) struct Said {
    pub(super) code: Option<i32>,
    pub(super) text: String,
}

/// Counts cases and collects what is wrong.
pub(super) struct Trial<'a> {
    pub(super) stage: &'a Stage,
    cases: u64,
    problems: Vec<String>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(stage: &'a Stage) -> Self {
        Self {
            stage,
            cases: 0,
            problems: Vec::new(),
        }
    }

    pub(super) fn cases(&self) -> u64 {
        self.cases
    }

    pub(super) fn problems(self) -> Vec<String> {
        self.problems
    }

    /// A directory of its own with a configuration.
    pub(super) fn directory(&self, name: &str, configuration: &str) -> Result<PathBuf> {
        let directory = self.stage.path(name);
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join("postrider.toml"), configuration)?;
        Ok(directory)
    }

    /// Runs a command with something on its standard input.
    pub(super) fn say(&self, directory: &Path, arguments: &[&str], input: &[u8]) -> Result<Said> {
        hear(self.stage.postrider(directory, arguments), input)
    }

    /// A case: a command whose exit code and words are known.
    pub(super) fn expect(
        &mut self,
        case: &str,
        directory: &Path,
        arguments: &[&str],
        code: i32,
        words: &[&str],
    ) -> Result<()> {
        let said = self.say(directory, arguments, b"")?;
        self.judge(case, &said, code, words);
        Ok(())
    }

    /// A case: what was said, and what should have been.
    pub(super) fn judge(&mut self, case: &str, said: &Said, code: i32, words: &[&str]) {
        self.cases += 1;
        if said.code != Some(code) {
            self.problems.push(format!(
                "{case}: exit code {:?}, not {code}: {}",
                said.code, said.text
            ));
        }
        for word in words.iter().filter(|word| !said.text.contains(**word)) {
            self.problems
                .push(format!("{case}: {word:?} is not in: {}", said.text));
        }
    }

    /// A case that is judged by something else than words.
    pub(super) fn check(&mut self, case: &str, holds: bool, problem: impl FnOnce() -> String) {
        self.cases += 1;
        if !holds {
            self.problems.push(format!("{case}: {}", problem()));
        }
    }
}

/// Runs a command and gives everything that it says, errors included.
pub(super) fn hear(mut command: Command, input: &[u8]) -> Result<Said> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read its input may be gone already, which is not what is being judged.
        let _ = stdin.write_all(input);
    }
    let output = child.wait_with_output()?;
    let text = [output.stdout, output.stderr].concat();
    Ok(Said {
        code: output.status.code(),
        text: String::from_utf8_lossy(&text).into_owned(),
    })
}
