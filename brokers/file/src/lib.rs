//! JSON lines in a file or on standard output, as a destination of Postrider.
