//! The suite of the inbox passes on a sound database and fails on broken ones.

mod desk;
mod planted;

mod sound {
    use crate::desk::Desks;
    postrider_testkit::inbox_suite!(Desks::sound());
}
