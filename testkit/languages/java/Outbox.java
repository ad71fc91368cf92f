import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Types;
import java.time.OffsetDateTime;

/** Events for the outbox, with JDBC. */
public final class Outbox {
    private static final String INSERT = """
        INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, event_key, payload,
            payload_bytes, content_type, headers, priority, available_at, created_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """;

    /** Payload and headers are JSON text. Everything but type and aggregate may be null. */
    public record Event(String eventId, String eventType, String aggregateType, String aggregateId,
            String eventKey, String payload, byte[] payloadBytes, String contentType, String headers,
            Integer priority, OffsetDateTime availableAt, OffsetDateTime createdAt) {
        public static Event json(String eventType, String aggregateType, String aggregateId, String payload) {
            return new Event(null, eventType, aggregateType, aggregateId, null, payload, null, null, null,
                null, null, null);
        }
    }

    /** Call it before commit(), on a connection with setAutoCommit(false). */
    public static void send(Connection connection, Event event) throws SQLException {
        if (connection.getAutoCommit()) {
            throw new IllegalStateException("an event belongs into the transaction of what it speaks of");
        }
        try (PreparedStatement insert = connection.prepareStatement(INSERT)) {
            insert.setString(1, event.eventId());
            insert.setString(2, event.eventType());
            insert.setString(3, event.aggregateType());
            insert.setString(4, event.aggregateId());
            insert.setString(5, event.eventKey());
            insert.setString(6, event.payload());
            insert.setBytes(7, event.payloadBytes());
            insert.setString(8, event.contentType());
            insert.setString(9, event.headers());
            insert.setObject(10, event.priority(), Types.INTEGER);
            insert.setObject(11, event.availableAt(), Types.TIMESTAMP_WITH_TIMEZONE);
            insert.setObject(12, event.createdAt(), Types.TIMESTAMP_WITH_TIMEZONE);
            insert.executeUpdate();
        }
    }

    public static void placeOrder(Connection connection, String order, int total) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO orders (id, total) VALUES (?, ?)")) {
            insert.setString(1, order);
            insert.setInt(2, total);
            insert.executeUpdate();
            send(connection, Event.json("OrderPlaced", "ORDER", order, "{\"total\": " + total + "}"));
            connection.commit();
        } catch (SQLException error) {
            connection.rollback();
            throw error;
        }
    }
}
