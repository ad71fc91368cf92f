//! The store in memory passes the suite that every backend passes.

mod harness;
mod planted;
mod planted_console;

mod eight_shards {
    use crate::harness::Memory;
    postrider_testkit::store_suite!(Memory::plain(8));
}

mod one_shard {
    use crate::harness::Memory;
    postrider_testkit::store_suite!(Memory::plain(1));
}
