//! The source suite passes on a sound source and fails on broken ones.

mod desk;
mod planted;

mod sound {
    use crate::desk::Desks;
    postrider_testkit::source_suite!(Desks::sound());
}
