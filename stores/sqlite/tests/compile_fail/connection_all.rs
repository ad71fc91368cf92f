//! The same for many events.

use postrider_core::Event;
use postrider_sqlite::Outbox;

fn main() {
    let mut connection = rusqlite::Connection::open_in_memory().unwrap();
    let event = Event::builder("T").aggregate("A", 1).json("{}").build().unwrap();
    Outbox::default().enqueue_all(&mut connection, &[event]).unwrap();
}
