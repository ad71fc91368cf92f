//! An in-memory destination of Postrider, for tests and demos.
