//! A directory to run the binary in.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");

/// Routes only orders, so that anything else becomes a dead letter.
pub const ORDERS_ONLY: &str = r#"
[outbox.main]
url = "sqlite:postrider.db"

[broker.events]
url = "file:events.jsonl"

[[route]]
when = { aggregate_type = "ORDER" }
to = [{ broker = "events" }]
"#;

/// What the binary did.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// The exit code must be this.
    #[track_caller]
    pub fn expect(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "\nstdout: {}\nstderr: {}", self.out, self.err);
        self
    }

    /// Standard output is one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {:?}", self.out))
    }

    /// Standard error has this text.
    #[track_caller]
    pub fn complains(self, text: &str) -> Ran {
        assert!(self.err.contains(text), "no {text:?} in {}", self.err);
        self
    }

    /// Standard output has this text.
    #[track_caller]
    pub fn says(self, text: &str) -> Ran {
        assert!(self.out.contains(text), "no {text:?} in {}", self.out);
        self
    }
}

/// A working directory of its own.
pub struct Place {
    dir: TempDir,
}

impl Place {
    pub fn empty() -> Place {
        Place {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// With a configuration and the tables made.
    pub fn ready(config: &str) -> Place {
        let place = Place::empty();
        place.write("postrider.toml", config);
        place.run(&["migrate", "up"]).expect(0);
        place
    }

    /// With one published event, `order-1`, one dead one, `dead-1`, and one that is scheduled, `later-1`.
    pub fn busy() -> Place {
        Place::busy_with(ORDERS_ONLY)
    }

    /// The same with another configuration that routes orders only.
    pub fn busy_with(config: &str) -> Place {
        let place = Place::ready(config);
        place.send("order-1", "ORDER/1", "{\"n\": 1}").expect(0);
        place.send("dead-1", "TICKET/1", "{\"n\": 2}").expect(0);
        let later = ["--aggregate", "ORDER/9", "--id", "later-1", "--delay", "1h"];
        let later = [&["send", "--type", "Reminder", "--payload", "{}"][..], &later].concat();
        place.run(&later).expect(0);
        place.run(&["run", "--until-empty"]).expect(1);
        place
    }

    /// Makes what was published ten days older.
    pub fn age(&self) {
        let connection = rusqlite::Connection::open(self.path("postrider.db")).unwrap();
        let sql = "UPDATE outbox_sent SET published_at = published_at - 10 * 86400000000";
        connection.execute(sql, []).unwrap();
    }

    /// With everything routed, so that what is dead for want of a route can be sent.
    pub fn mend(&self) {
        let config = self.read("postrider.toml");
        let routed = config.replace("when = { aggregate_type = \"ORDER\" }", "");
        self.write("postrider.toml", &routed);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, &[])
    }

    pub fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Ran {
        let mut command = self.binary();
        command.args(args).envs(variables.iter().copied());
        ran(command.output().unwrap())
    }

    /// With something on standard input.
    pub fn pipe(&self, args: &[&str], input: &str) -> Ran {
        use std::io::Write;
        let mut command = self.binary();
        let mut child = command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that refuses its input at once closes the pipe, which is no fault of the test.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        ran(child.wait_with_output().unwrap())
    }

    /// A line of a shell in which `postrider` is the binary.
    pub fn shell(&self, line: &str) -> Ran {
        self.shell_with(line, &[])
    }

    pub fn shell_with(&self, line: &str, variables: &[(&str, &str)]) -> Ran {
        let mut command = self.command("sh");
        let folder = Path::new(BINARY).parent().unwrap().display().to_string();
        let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
        command.args(["-c", line]).envs(variables.iter().copied());
        ran(command.env("PATH", path).output().unwrap())
    }

    pub fn send(&self, id: &str, aggregate: &str, payload: &str) -> Ran {
        self.run(&[
            "send",
            "--type",
            "OrderPlaced",
            "--aggregate",
            aggregate,
            "--id",
            id,
            "--payload",
            payload,
        ])
    }

    /// The binary; one that hangs is ended, so that a test fails instead of hanging with it.
    fn binary(&self) -> Command {
        let mut command = self.command("timeout");
        command.args(["--kill-after=5", "60", BINARY]);
        command
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("POSTRIDER") {
                command.env_remove(name);
            }
        }
        command
    }
}

/// The binary, running beside the test.
pub struct Running(Option<Child>);

impl Running {
    /// Starts it; what it writes is kept.
    pub fn start(place: &Place, args: &[&str]) -> Running {
        let mut command = place.command(BINARY);
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().unwrap()))
    }

    /// Starts it with a pipe on standard error that nobody reads.
    pub fn start_unread(place: &Place, args: &[&str]) -> Running {
        let mut command = place.command(BINARY);
        command.args(args).stdout(Stdio::null()).stderr(Stdio::piped());
        Running(Some(command.spawn().unwrap()))
    }

    /// Starts it with standard error in a file, which can be read meanwhile.
    pub fn start_into(place: &Place, args: &[&str], log: std::fs::File) -> Running {
        let mut command = place.command(BINARY);
        command.args(args).stdout(Stdio::piped()).stderr(log);
        Running(Some(command.spawn().unwrap()))
    }

    /// The process itself.
    pub fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    /// Asks it to stop, as a supervisor does, and waits.
    pub fn stop(mut self) -> Ran {
        let child = self.0.take().unwrap();
        let stopped = Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(stopped.success());
        ran(child.wait_with_output().unwrap())
    }

    /// Waits until it ends by itself.
    pub fn wait(mut self) -> Ran {
        ran(self.0.take().unwrap().wait_with_output().unwrap())
    }

    /// Ends it at once.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn ran(output: Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}
