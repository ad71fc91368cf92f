//! Health and metrics of a real relay, asked over a real socket.

mod alive;
mod decisions;
mod health;
mod hostile;
mod openmetrics;
mod sampling;
mod stalled;
mod support;
