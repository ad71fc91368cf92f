//! The relay through its public interface, on a store and sinks in memory with scripted faults.

mod answers;
mod bench;
mod build;
mod desk;
mod destinations;
mod direct;
mod doze;
mod dropped;
mod guilty;
mod in_hand;
mod lifecycle;
mod logs;
mod notes;
mod order;
mod people;
mod rest;
mod run;
mod single_rows;
mod sink_fails;
mod store_fails;
mod support;
mod trial;
mod turns;
mod wake;
