//! A connection commits every statement by itself: the event would not share the fate of the business row.

use postrider_core::Event;
use postrider_sqlite::Outbox;

fn main() {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    let event = Event::builder("T").aggregate("A", 1).json("{}").build().unwrap();
    Outbox::default().enqueue(&connection, &event).unwrap();
}
