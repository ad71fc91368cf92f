//! The SQLite store of Postrider: the embedded default.
