"""Effects that happen once in SQLite, with Python's own module."""

import sqlite3


class ReusedId(Exception):
    """Two events have one id: have their producer give every event an id of its own."""


def connect(path):
    # Transactions begin where we say so; another writer is waited for.
    return sqlite3.connect(path, timeout=5, isolation_level=None)


def first(connection, consumer, event_id, payload_hash=None):
    """Call it before the effect, between BEGIN IMMEDIATE and COMMIT: False when it happened before."""
    if not event_id:
        raise ValueError("the event has no id")
    inserted = connection.execute(
        """
        INSERT INTO inbox (consumer, event_id, payload_hash) VALUES (?, ?, ?)
        ON CONFLICT (consumer, event_id) DO NOTHING
        """,
        (consumer, event_id, payload_hash),
    )
    if inserted.rowcount == 1:
        return True
    recorded = connection.execute(
        "SELECT payload_hash FROM inbox WHERE consumer = ? AND event_id = ?", (consumer, event_id)
    ).fetchone()
    if recorded and recorded[0] and payload_hash and recorded[0] != payload_hash:
        raise ReusedId(event_id)
    return False


def charge(connection, event_id, payload_hash, order, amount):
    """Acknowledge the message when it has returned, never before."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if first(connection, "billing", event_id, payload_hash):
            connection.execute("INSERT INTO charges (order_id, amount) VALUES (?, ?)", (order, amount))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
