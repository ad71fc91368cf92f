//! The binary `postrider`: configuration and wiring only.
#![allow(dead_code)]
mod config;
mod failure;
mod output;
mod wire {
    pub fn address_fields(kind: &crate::config::Kind) -> Option<&'static [postrider_core::AddressField]> {
        match kind {
            crate::config::Kind::Other { .. } => None,
            _ => Some(&[]),
        }
    }
}
fn main() {}
