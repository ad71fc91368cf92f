//! Consoles that stand before another one and change little of it.

use postrider_core::{BoxFuture, StoreError};

/// What a console gives.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Within `impl Console`: the methods that are named, each as another console has it, which stands in this field. What
/// they are of and what they answer is named as in [`postrider_core`], all of which must be in scope.
///
/// ```
/// use postrider_core::*;
/// use postrider_testkit::{MemoryStore, forward_console};
///
/// struct Empty(MemoryStore);
///
/// impl Console for Empty {
///     fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>> {
///         Box::pin(async { Ok(Stats::default()) })
///     }
///
///     forward_console!(0: list, show, sent, groups, act, edit, begin, step, jobs, steer);
///     forward_console!(0: control, controls, note, audit);
/// }
/// ```
#[macro_export]
macro_rules! forward_console {
    ($field:tt: $($method:ident),+) => { $($crate::forward_console!(@ $field $method);)+ };
    (@ $field:tt $method:ident($($name:ident: $type:ty),*) -> $answer:ty) => {
        fn $method(&self $(, $name: $type)*) -> $crate::forward::Answer<'_, $answer> {
            Console::$method(&self.$field $(, $name)*)
        }
    };
    (@ $field:tt stats) => { $crate::forward_console!(@ $field stats() -> Stats); };
    (@ $field:tt list) => { $crate::forward_console!(@ $field list(list: List) -> Listing); };
    (@ $field:tt show) => { $crate::forward_console!(@ $field show(id: EventId) -> Vec<EventRecord>); };
    (@ $field:tt sent) => {
        $crate::forward_console!(
            @ $field sent(event_type: Option<String>, limit: u32, after: Option<Cursor>) -> SentPage
        );
    };
    (@ $field:tt groups) => { $crate::forward_console!(@ $field groups() -> Vec<Group>); };
    (@ $field:tt act) => { $crate::forward_console!(@ $field act(act: Act) -> Chunk); };
    (@ $field:tt edit) => { $crate::forward_console!(@ $field edit(edit: Edit) -> Chunk); };
    (@ $field:tt begin) => { $crate::forward_console!(@ $field begin(job: NewJob) -> Job); };
    (@ $field:tt step) => { $crate::forward_console!(@ $field step(job: JobId, limit: u32) -> Step); };
    (@ $field:tt jobs) => { $crate::forward_console!(@ $field jobs(only: Option<JobId>, limit: u32) -> Vec<Job>); };
    (@ $field:tt steer) => {
        $crate::forward_console!(@ $field steer(job: JobId, verb: JobVerb, actor: String) -> Job);
    };
    (@ $field:tt control) => { $crate::forward_console!(@ $field control(control: Control, actor: String) -> ()); };
    (@ $field:tt controls) => { $crate::forward_console!(@ $field controls() -> Vec<InForce>); };
    (@ $field:tt note) => {
        $crate::forward_console!(
            @ $field note(actor: String, action: &'static str, detail: String, touched: u64) -> ()
        );
    };
    (@ $field:tt audit) => { $crate::forward_console!(@ $field audit(limit: u32, from: Option<Cursor>) -> AuditPage); };
}
