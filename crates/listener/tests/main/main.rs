//! A whole listener on a broker and a database in memory.

mod calls;
mod contract;
mod dead_letters;
mod direct;
mod fail;
mod keep;
mod once;
mod order;
mod outages;
mod stop;
mod support;
