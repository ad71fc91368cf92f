//! What the suites have in common: cases with names, and a runtime for each.

use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::time::Duration;

/// Not `Send`: a case runs on the thread that waits for it, which keeps the cases free of bounds.
pub(crate) type CaseFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The longest that a case may take; a backend that hangs is a failure with a name, not a build that stands still.
const CASE_LIMIT: Duration = Duration::from_secs(180);

/// One case of a suite.
pub struct Case<Feature: 'static, Bench> {
    /// Its file and name, such as `lease::a_renewal_keeps_the_token`.
    pub name: &'static str,
    /// What the backend and its harness must have for it to apply.
    pub needs: &'static [Feature],
    pub(crate) run: fn(Bench) -> CaseFuture,
}

/// Runs the case of a name on a fresh bench; panics when the backend breaks the contract. Where the case needs what the
/// backend lacks, it says why it is skipped.
pub(crate) fn run<Feature: Copy, Bench>(
    suite: &str,
    (cases, name): (&[Case<Feature, Bench>], &str),
    why_not: impl FnMut(Feature) -> Option<&'static str>,
    bench: impl Future<Output = Bench>,
) {
    let case = cases.iter().find(|case| case.name == name);
    let case = case.unwrap_or_else(|| panic!("there is no case {name}"));
    match case.needs.iter().copied().find_map(why_not) {
        Some(reason) => say_skipped(suite, name, reason),
        None => block_on(async {
            let bench = bench.await;
            limited(name, (case.run)(bench)).await;
        }),
    }
}

/// Why a feature is lacking, if it is.
pub(crate) fn lacking<Feature: PartialEq>(
    lacks: &[(Feature, &'static str)],
    feature: Feature,
) -> Option<&'static str> {
    let lacking = lacks.iter().find(|(lacking, _)| *lacking == feature);
    lacking.map(|(_, reason)| *reason)
}

/// Waits for a case, within its limit.
async fn limited(name: &str, case: impl Future<Output = ()>) {
    if tokio::time::timeout(CASE_LIMIT, case).await.is_err() {
        panic!("{name} did not end within {CASE_LIMIT:?}");
    }
}

/// Runs a case on a runtime of its own, so that nothing of it outlives the test.
fn block_on(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime for the case");
    runtime.block_on(case);
}

/// Says that a case does not apply, past the capture of the test runner: it must be seen in every run.
pub(crate) fn say_skipped(suite: &str, name: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped {suite} case {name}: {reason}");
}

/// Lists the cases of a suite once, as a table and as the exported macro that makes tests of them.
macro_rules! cases {
    // The first argument is a dollar sign: a macro that defines a macro has no other way to write one.
    ($d:tt $suite:ident, $module:ident, $contract:literal
        $($file:ident { $($case:ident $([$($need:ident)+])?;)+ })+) => {
        /// Every case of the suite.
        pub const CASES: &[Case] = &[$($(Case {
            name: concat!(stringify!($file), "::", stringify!($case)),
            needs: &[$($(Feature::$need,)+)?],
            run: |bench| Box::pin($file::$case(bench)),
        },)+)+];

        #[doc = concat!("Makes one `#[test]` of every case of the `", $contract, "` suite.")]
        ///
        /// The argument is an expression that gives the harness. It is evaluated anew for each case, so that failures
        /// have names and cases share nothing.
        #[macro_export]
        macro_rules! $suite {
            ($d harness:expr) => {
                $(mod $file {
                    #[allow(unused_imports)]
                    use super::*;
                    $(#[test]
                    fn $case() {
                        $crate::$module::run(
                            concat!(stringify!($file), "::", stringify!($case)),
                            $d harness,
                        );
                    })+
                })+
            };
        }
    };
}
