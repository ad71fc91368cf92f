// Package outbox has events for the outbox, with pgx.
package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Event is one event. Payload and Headers are JSON text. Everything but type and aggregate may be nil.
type Event struct {
	EventType, AggregateType, AggregateID            string
	EventID, EventKey, Payload, ContentType, Headers *string
	PayloadBytes                                     []byte
	Priority                                         *int32
	AvailableAt, CreatedAt                           *time.Time
}

// Send commits the event with the transaction, or not at all.
func Send(ctx context.Context, tx pgx.Tx, event Event) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, event_key, payload,
			payload_bytes, content_type, headers, priority, available_at, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		event.EventID, event.EventType, event.AggregateType, event.AggregateID, event.EventKey, event.Payload,
		event.PayloadBytes, event.ContentType, event.Headers, event.Priority, event.AvailableAt, event.CreatedAt)
	return err
}

// PlaceOrder places an order and tells others about it.
func PlaceOrder(ctx context.Context, connection *pgx.Conn, order string, total int) error {
	return pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id, total) VALUES ($1, $2)", order, total); err != nil {
			return err
		}
		payload := fmt.Sprintf(`{"total": %d}`, total)
		return Send(ctx, tx, Event{EventType: "OrderPlaced", AggregateType: "ORDER", AggregateID: order, Payload: &payload})
	})
}
