"""Events for the outbox, with psycopg 3."""

import json


def send(connection, event_type, aggregate_type, aggregate_id, payload=None, *, payload_bytes=None,
         event_id=None, event_key=None, content_type=None, headers=None, priority=None,
         available_at=None, created_at=None):
    """Call it inside `with connection.transaction()`. `payload` and `headers` are JSON text."""
    connection.execute(
        """
        INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, event_key, payload,
            payload_bytes, content_type, headers, priority, available_at, created_at)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
        """,
        (event_id, event_type, aggregate_type, aggregate_id, event_key, payload,
         payload_bytes, content_type, headers, priority, available_at, created_at),
    )


def place_order(connection, order, total):
    with connection.transaction():
        connection.execute("INSERT INTO orders (id, total) VALUES (%s, %s)", (order, total))
        send(connection, "OrderPlaced", "ORDER", order, json.dumps({"total": total}))
