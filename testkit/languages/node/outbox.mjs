// Events for the outbox, with node-postgres.

// Call it between BEGIN and COMMIT, on the client that began. `payload` and `headers` are JSON text.
export async function send(client, event) {
  await client.query(
    `INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, event_key, payload,
        payload_bytes, content_type, headers, priority, available_at, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
    [event.eventId, event.eventType, event.aggregateType, event.aggregateId, event.eventKey, event.payload,
      event.payloadBytes, event.contentType, event.headers, event.priority, event.availableAt, event.createdAt],
  );
}

export async function placeOrder(client, order, total) {
  await client.query("BEGIN");
  try {
    await client.query("INSERT INTO orders (id, total) VALUES ($1, $2)", [order, total]);
    await send(client, {
      eventType: "OrderPlaced", aggregateType: "ORDER", aggregateId: order, payload: JSON.stringify({ total }),
    });
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  }
}
