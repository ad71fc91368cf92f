//! The relay through its public interface, on a store and sinks in memory with scripted faults.

mod answers;
mod build;
mod destinations;
mod direct;
mod edges;
mod found;
mod guilty;
mod logs;
mod order;
mod people;
mod rest;
mod run;
mod single_rows;
mod support;
mod wake;
