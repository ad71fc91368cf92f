"""Carries out the commands of standard input with psycopg; see ../README.md."""

import base64
import datetime
import sys

import psycopg

import outbox

SEND = """
    SELECT outbox_send(event_id => %s, event_type => %s, aggregate_type => %s, aggregate_id => %s, event_key => %s,
        payload => %s, payload_bytes => %s, content_type => %s, headers => %s, priority => %s, available_at => %s)
"""


def value(word):
    return None if word == "-" else base64.b64decode(word[1:], validate=True)


def text(word):
    return None if word == "-" else value(word).decode()


def number(word):
    return None if word == "-" else int(text(word))


def time(word):
    return None if word == "-" else datetime.datetime.fromisoformat(text(word).replace("Z", "+00:00"))


def business_row(connection, order):
    connection.execute("INSERT INTO orders (id, total) VALUES (%s, 0)", (order,))


def insert(connection, order, words):
    business_row(connection, order)
    event_id, event_type, aggregate_type, aggregate_id, event_key, payload = map(text, words[:6])
    outbox.send(
        connection, event_type, aggregate_type, aggregate_id, payload, payload_bytes=value(words[6]),
        event_id=event_id, event_key=event_key, content_type=text(words[7]), headers=text(words[8]),
        priority=number(words[9]), available_at=time(words[10]), created_at=time(words[11]),
    )


def call(connection, order, words):
    business_row(connection, order)
    values = [*map(text, words[:6]), value(words[6]), text(words[7]), text(words[8]), number(words[9]), time(words[10])]
    connection.execute(SEND, values)


def main():
    with psycopg.connect(sys.argv[1]) as connection:
        for line in sys.stdin:
            command, *words = line.rstrip("\n").split(" ")
            match command:
                case "insert":
                    insert(connection, words[0], words[1:])
                case "call":
                    call(connection, words[0], words[1:])
                case "order":
                    outbox.place_order(connection, words[0], int(words[1]))
                case "commit":
                    connection.commit()
                case "rollback":
                    connection.rollback()
                case _:
                    raise SystemExit(f"there is no command {command!r}")


main()
