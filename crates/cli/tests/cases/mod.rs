mod config;
mod dead;
mod demo;
mod faults;
mod flow;
mod help;
mod http;
#[cfg(feature = "postgres")]
mod postgres;
mod refuse;
