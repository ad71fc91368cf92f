//! The relay of Postrider: a pure engine and the driver that runs it.
