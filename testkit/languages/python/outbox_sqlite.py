"""Events for the outbox in SQLite, with Python's own module."""

import json
import sqlite3


def connect(path):
    # Transactions begin where we say so; another writer is waited for.
    return sqlite3.connect(path, timeout=5, isolation_level=None)


def send(connection, event_type, aggregate_type, aggregate_id, payload=None, *, payload_bytes=None,
         event_id=None, event_key=None, content_type=None, headers=None, priority=None,
         available_at=None, created_at=None):
    """Call it between BEGIN IMMEDIATE and COMMIT. `payload` and `headers` are JSON text, times ISO 8601."""
    connection.execute(
        """
        INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, event_key, payload,
            payload_bytes, content_type, headers, priority, available_at, created_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (event_id, event_type, aggregate_type, aggregate_id, event_key, payload,
         payload_bytes, content_type, headers, priority, available_at, created_at),
    )


def place_order(connection, order, total):
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("INSERT INTO orders (id, total) VALUES (?, ?)", (order, total))
        send(connection, "OrderPlaced", "ORDER", order, json.dumps({"total": total}))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
