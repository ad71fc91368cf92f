mod config;
mod dead;
mod demo;
mod flow;
mod help;
mod http;
mod refuse;
