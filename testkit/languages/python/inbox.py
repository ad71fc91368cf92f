"""Effects that happen once, with psycopg 3."""


class ReusedId(Exception):
    """Two events have one id: have their producer give every event an id of its own."""


def first(connection, consumer, event_id, payload_hash=None):
    """Call it before the effect, inside `with connection.transaction()`: False when it happened before."""
    if not event_id:
        raise ValueError("the event has no id")
    inserted = connection.execute(
        """
        INSERT INTO inbox (consumer, event_id, payload_hash) VALUES (%s, %s, %s)
        ON CONFLICT (consumer, event_id) DO NOTHING
        """,
        (consumer, event_id, payload_hash),
    )
    if inserted.rowcount == 1:
        return True
    # A statement of its own: the first does not see what was committed while it waited.
    recorded = connection.execute(
        "SELECT payload_hash FROM inbox WHERE consumer = %s AND event_id = %s", (consumer, event_id)
    ).fetchone()
    if recorded and recorded[0] and payload_hash and recorded[0] != payload_hash:
        raise ReusedId(event_id)
    return False


def charge(connection, event_id, payload_hash, order, amount):
    """Acknowledge the message when it has returned, never before."""
    with connection.transaction():
        if first(connection, "billing", event_id, payload_hash):
            connection.execute("INSERT INTO charges (order_id, amount) VALUES (%s, %s)", (order, amount))
