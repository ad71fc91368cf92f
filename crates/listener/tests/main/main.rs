//! A whole listener on a broker and a database in memory.

mod dead_letters;
mod fail;
mod once;
mod order;
mod outages;
mod stop;
mod support;
