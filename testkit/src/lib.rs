//! Conformance suites, fault wrappers and the ledger checker of Postrider.
