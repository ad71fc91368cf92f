//! `/openapi.json`: what can be asked here, for programs that make clients.

use axum::http::StatusCode;

use super::problem::{Answer, text_answer};

const DOCUMENT: &str = include_str!("openapi.json");

pub(super) async fn document() -> Answer {
    text_answer(StatusCode::OK, "application/json", DOCUMENT)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// What the router answers, read from its source: a route that is added without a word here is found.
    fn routes() -> BTreeSet<String> {
        let source = include_str!("router.rs");
        let mut found = BTreeSet::new();
        for route in source.split(".route(").skip(1) {
            let path = route.split('"').nth(1).unwrap();
            for method in ["get", "post", "put", "delete"] {
                let is_answered = [format!(" {method}("), format!(".{method}(")];
                if is_answered.iter().any(|call| route.contains(call.as_str())) {
                    found.insert(format!("{method} {path}"));
                }
            }
        }
        found
    }

    #[test]
    fn every_route_is_in_it_and_nothing_else() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let mut said = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            said.extend(
                methods
                    .as_object()
                    .unwrap()
                    .keys()
                    .map(|method| format!("{method} {path}")),
            );
        }
        assert!(said.len() > 15, "{said:?}");
        assert_eq!(said, routes());
    }

    #[test]
    fn what_it_refers_to_is_there() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        for reference in DOCUMENT.split("\"$ref\": \"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
