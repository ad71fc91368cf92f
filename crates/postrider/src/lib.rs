//! The transactional outbox: the library that services depend on.
