//! The seeded simulator that the engine is proven by.
