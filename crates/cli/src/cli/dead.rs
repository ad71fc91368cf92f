//! `postrider dead`: what can be asked about events that need a person.

use clap::{ArgAction, Subcommand};

use crate::args::{ActArgs, DeadArgs, EditArgs};

pub const EXAMPLES: &str = "\
Examples:
  postrider dead list --group
  postrider dead show dead-1
  postrider dead redrive dead-1
  postrider dead redrive --kind no_route --dry-run
  postrider dead discard dead-1 --reason 'test data'

Look at the groups first: many events may have one cause. Later events of a
dead event's key wait until it is redriven or discarded. A running relay has
read its configuration when it started: after a change of routes, templates or
limits restart it first, then redrive.";

#[derive(Debug, Subcommand)]
pub enum DeadCommand {
    /// List dead and stalled events with what went wrong and what to do
    ///
    /// Stalled: refused again and again for longer than relay.stalled_after, and still tried; or redriven, and not come
    /// to for that long.
    #[command(after_long_help = "\
Examples:
  postrider dead list
  postrider dead list --group
  postrider dead list --kind no_route --since 1d --json
  postrider dead list --text ticket

The dead come first, then the stalled, the newest of each first, and one outbox
after the other; --limit counts the dead and the stalled of each outbox for
themselves. --group counts failures that look alike; the GROUP of its first
column, given to --group, lists or redrives exactly these. The groups
themselves are narrowed by --destination, --kind, --text (in their example) and
--limit (of each outbox); other filters are for the events, without --group.")]
    List(DeadArgs),
    /// Show everything known about one dead or refused event
    #[command(after_long_help = "\
Examples:
  postrider dead show dead-1
  postrider dead show dead-1 --payload --json

Exit code 1 if there is no dead or refused event with that id.")]
    Show {
        /// The event's id
        id: String,
        /// With its payload, which may hold personal data
        #[arg(long)]
        payload: bool,
        /// Only this outbox
        #[arg(long, value_name = "NAME")]
        outbox: Option<String>,
    },
    /// Send dead and refused events again
    ///
    /// To where they were to go, by today's configuration; one whose destination is gone, or that had none, is routed
    /// anew. One that stands behind another of its key waits for it. What matches a filter is a job: Ctrl-C
    /// pauses it, and `postrider job resume` goes on, also after a crash.
    #[command(after_long_help = "\
Examples:
  postrider dead redrive dead-1
  postrider dead redrive --kind no_route --dry-run
  postrider dead redrive --all --yes --json

A filter means what `dead list` shows with it, and what is refused and tried
again by itself; what matches in another state is counted and left alone.

Exit code 1 if an id does not exist, its event is in another state, or the
job was stopped; 0 if there is nothing to redrive.")]
    Redrive(ActArgs),
    /// Change the payload of a dead or refused event and send it again
    ///
    /// The first payload is kept: `postrider show ID --payload` has both.
    #[command(after_long_help = r#"Examples:
  postrider dead edit dead-1 --payload '{"n": 1}' --yes
  echo '{"n": 1}' > new.json \
    && postrider dead edit dead-1 --payload-file new.json --yes --json

Exit code 1 if there is no such event or it is in another state, 2 if the new
payload is not what its content type says; then nothing was changed. Whether a
destination takes so much, it says when the event is sent."#)]
    Edit(EditArgs),
    /// Throw dead events away
    ///
    /// They move into the history as discarded, with the reason, and do not go out, unless a relay was at it. Of events
    /// that are named by their ids those that were refused and are tried again go too. With --yes so do those of them
    /// that are WAITING, HELD or SCHEDULED and would go out yet; without it they are left alone.
    #[command(after_long_help = "\
Examples:
  postrider dead discard dead-1 --reason 'test data'
  postrider dead discard --type OrderPlaced --reason 'test data' --dry-run
  postrider dead discard --all --reason 'test data' --yes")]
    Discard {
        #[command(flatten)]
        act: ActArgs,
        /// Why; kept with the events
        #[arg(long, action = ArgAction::Set, required = true)]
        reason: String,
    },
}
