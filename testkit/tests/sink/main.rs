//! The sink suite passes on a sound sink and fails on broken ones.

mod planted;
mod shelf;

mod sound {
    use crate::shelf::Shelves;
    postrider_testkit::sink_suite!(Shelves::sound());
}
