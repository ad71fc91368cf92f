//! Processes that are ended, killed and frozen for real.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use postrider_testkit::crash::{self, Ended, POINTS};
use postrider_testkit::process::{Process, peak_rss_mib};

const LIMIT: Duration = Duration::from_secs(20);

/// Tells a copy of this test binary that it is the child.
const CHILD: &str = "POSTRIDER_TESTKIT_CHILD";

/// What the tests below start: passes every point three times, echoes its input, and ends well. Run among the others it
/// does nothing.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    for _ in 0..3 {
        POINTS
            .iter()
            .for_each(|point| postrider_core::crash::point(point));
    }
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).unwrap() > 0 {
        print!("{line}");
        std::io::stdout().flush().unwrap();
        line.clear();
    }
}

fn this_child() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(CHILD, "1");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn echoing() -> Process {
    Process::spawn(this_child().stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap()
}

/// Waits until the child has answered with this line, among what the test runner prints around it.
fn echo(process: &mut Process, output: &mut impl BufRead, word: &str) {
    let input = process.child().stdin.as_mut().unwrap();
    writeln!(input, "{word}").unwrap();
    let found = output
        .lines()
        .map_while(Result::ok)
        .any(|line| line.ends_with(word));
    assert!(found, "the child ended before it answered {word}");
}

#[test]
fn a_process_ends_at_each_point_and_each_turn() {
    for point in POINTS {
        for n in [1, 3] {
            let ended = crash::run_until(&mut this_child(), point, n, LIMIT).unwrap();
            assert!(ended.at_point(), "{point}:{n}: {ended:?}");
        }
    }
}

#[test]
fn a_point_that_is_not_reached_often_enough_ends_nothing() {
    let ended = crash::run_until(&mut this_child(), POINTS[0], 4, LIMIT).unwrap();
    assert!(
        matches!(&ended, Ended::ByItself(status) if status.success()),
        "{ended:?}"
    );
    assert!(crash::spawn(&mut this_child(), "no.such.point", 1).is_err());
}

#[test]
fn a_frozen_process_does_nothing_until_it_is_thawed() {
    let mut process = echoing();
    let mut output = BufReader::new(process.child().stdout.take().unwrap());
    echo(&mut process, &mut output, "before");
    process.freeze().unwrap();
    wait_for_state(process.id(), 'T');
    assert!(process.wait(Duration::from_millis(50)).unwrap().is_none());
    process.thaw().unwrap();
    echo(&mut process, &mut output, "after");
}

#[test]
fn a_killed_process_is_gone_even_when_it_was_frozen() {
    let mut process = echoing();
    process.freeze().unwrap();
    let status = process.kill().unwrap();
    assert!(!status.success());
    assert_eq!(process.kill().unwrap(), status, "once is enough");
    assert!(process.thaw().is_err(), "nobody else is signalled by mistake");
    assert!(peak_rss_mib(process.id()).is_err());
}

#[test]
fn a_dropped_process_is_killed() {
    let mut process = echoing();
    let mut output = process.child().stdout.take().unwrap();
    assert!(process.peak_rss_mib().unwrap() > 0);
    drop(process);
    // The pipe ends with the last process that holds it.
    output.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_process_that_is_asked_to_stop_stops() {
    let mut process = echoing();
    let mut output = BufReader::new(process.child().stdout.take().unwrap());
    echo(&mut process, &mut output, "ready");
    process.terminate().unwrap();
    assert!(process.wait(LIMIT).unwrap().is_some());
}

/// Waits until the kernel shows a process in this state.
fn wait_for_state(pid: u32, state: char) {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let shown = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        if shown == Some(state) {
            return;
        }
        std::thread::yield_now();
    }
    panic!("process {pid} did not come to state {state}");
}
