//! The live counts: a block that is redrawn on a terminal, a plain line a second otherwise, nothing for scripts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::board::{Board, Counts};
use crate::failure::Failure;
use crate::output::Output;

pub struct Screen {
    out: Output,
    folder: String,
    board: Arc<Board>,
    began: Instant,
    drawn: Instant,
    /// Lines of the block on the terminal, to go up by.
    height: usize,
}

impl Screen {
    pub fn new(out: Output, folder: String, board: Arc<Board>) -> Self {
        let now = Instant::now();
        Self {
            out,
            folder,
            board,
            began: now,
            drawn: now,
            height: 0,
        }
    }

    /// How often to draw.
    pub fn interval(&self) -> Duration {
        match self.out.is_terminal() {
            true => Duration::from_millis(200),
            false => Duration::from_secs(1),
        }
    }

    pub fn draw_if_due(&mut self, state: &str) -> Result<(), Failure> {
        match self.drawn.elapsed() >= self.interval() {
            true => self.draw(state),
            false => Ok(()),
        }
    }

    pub fn draw(&mut self, state: &str) -> Result<(), Failure> {
        self.drawn = Instant::now();
        let (counts, p50, p99) = (
            self.board.counts(),
            self.board.latency(0.5),
            self.board.latency(0.99),
        );
        let seconds = self.began.elapsed().as_secs_f64();
        match (self.out.is_json(), self.out.is_terminal()) {
            (true, _) => Ok(()),
            (false, false) => self.out.line(line(seconds, state, &counts, p50)),
            (false, true) => {
                let block = block(&self.folder, seconds, state, &counts, (p50, p99));
                let up = match self.height {
                    0 => String::new(),
                    height => format!("\x1b[{height}A"),
                };
                self.height = block.lines().count();
                self.out.line(format!("\r{up}{}", fit(&block)))
            }
        }
    }
}

/// The widest line of the block: one that wraps would be two to go up by.
const WIDTH: usize = 79;

/// Every line cut to the screen, and what was there before it cleared.
fn fit(block: &str) -> String {
    let line = |line: &str| format!("{}\x1b[K", line.chars().take(WIDTH).collect::<String>());
    block.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn line(seconds: f64, state: &str, counts: &Counts, p50: Duration) -> String {
    let Counts {
        committed,
        rolled_back,
        arrived,
        effects,
    } = counts;
    let line = format!(
        "{seconds:5.1}s  committed {committed}  rolled back {rolled_back}  arrived {arrived}  effects {effects}  \
         p50 {:.1} ms  {state}",
        ms(p50)
    );
    line.trim_end().to_owned()
}

fn block(
    folder: &str,
    seconds: f64,
    state: &str,
    counts: &Counts,
    (p50, p99): (Duration, Duration),
) -> String {
    let Counts {
        committed,
        rolled_back,
        arrived,
        effects,
    } = counts;
    let state = if state.is_empty() { "Ctrl-C stops" } else { state };
    format!(
        "postrider demo   {seconds:.0} s   {state}   ({folder})

  order service   {committed:>8} committed   {rolled_back:>8} rolled back on purpose
       │  outbox in the same transaction
       ▼
  relay           {:>8} on the way
       │  broker in memory
       ▼
  consumer        {arrived:>8} arrived     {effects:>8} took effect, once each

  commit → effect      p50 {:.1} ms      p99 {:.1} ms",
        committed.saturating_sub(*effects),
        ms(p50),
        ms(p99),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_stays_within_80_columns_and_clears_line_by_line() {
        let counts = Counts {
            committed: 12_345_678,
            rolled_back: 12_345_678,
            arrived: 12_345_678,
            effects: 12_345_678,
        };
        let folder = "/a/very/long/directory/".repeat(9);
        let times = (Duration::from_secs(1), Duration::from_secs(9));
        let block = fit(&block(&folder, 100.0, "", &counts, times));
        for line in block.lines() {
            let line = line.strip_suffix("\x1b[K").expect("cleared to its end");
            assert!(line.chars().count() < 80, "{line}");
        }
        assert!(block.contains("took effect, once each"));
    }
}
