// Carries out the commands of standard input with pgx; see ../README.md.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"postrider/check/outbox"
)

func main() {
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, os.Args[1])
	must(err)
	defer connection.Close(ctx)
	input := bufio.NewReader(os.Stdin)
	var tx pgx.Tx
	for {
		line, err := input.ReadString('\n')
		if err == io.EOF {
			return
		}
		must(err)
		words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		switch words[0] {
		case "insert":
			if tx == nil {
				tx, err = connection.Begin(ctx)
				must(err)
			}
			insert(ctx, tx, words[1], words[2:])
		case "order":
			total, err := strconv.Atoi(words[2])
			must(err)
			must(outbox.PlaceOrder(ctx, connection, words[1], total))
		case "commit":
			must(tx.Commit(ctx))
			tx = nil
		case "rollback":
			must(tx.Rollback(ctx))
			tx = nil
		default:
			must(fmt.Errorf("there is no command %q", words[0]))
		}
	}
}

func insert(ctx context.Context, tx pgx.Tx, order string, words []string) {
	_, err := tx.Exec(ctx, "INSERT INTO orders (id, total) VALUES ($1, 0)", order)
	must(err)
	must(outbox.Send(ctx, tx, outbox.Event{
		EventID:       text(words[0]),
		EventType:     *text(words[1]),
		AggregateType: *text(words[2]),
		AggregateID:   *text(words[3]),
		EventKey:      text(words[4]),
		Payload:       text(words[5]),
		PayloadBytes:  value(words[6]),
		ContentType:   text(words[7]),
		Headers:       text(words[8]),
		Priority:      number(words[9]),
		AvailableAt:   moment(words[10]),
		CreatedAt:     moment(words[11]),
	}))
}

func value(word string) []byte {
	if word == "-" {
		return nil
	}
	bytes, err := base64.StdEncoding.DecodeString(word[1:])
	must(err)
	return bytes
}

func text(word string) *string {
	if word == "-" {
		return nil
	}
	text := string(value(word))
	return &text
}

func number(word string) *int32 {
	if word == "-" {
		return nil
	}
	number, err := strconv.ParseInt(*text(word), 10, 32)
	must(err)
	short := int32(number)
	return &short
}

func moment(word string) *time.Time {
	if word == "-" {
		return nil
	}
	moment, err := time.Parse(time.RFC3339, *text(word))
	must(err)
	return &moment
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
