package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/client/sqlite"
)

// Ship is a payload: a value that JSON can hold, and the name of its kind.
type Ship struct {
	Order int `json:"order"`
}

func (Ship) Kind() string { return "ship" }

// EnqueueDefaults gives the options of every Ship that its enqueue leaves
// open.
func (Ship) EnqueueDefaults() client.EnqueueOptions {
	return client.EnqueueOptions{Queue: "warehouse", MaxRetries: 10}
}

func Example() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// stored {"order":41} in warehouse, at most 10 attempts
	// stored {"order":42} with its order
	// order 42 is being shipped already
	// ship {"order":41} is pending
	// ship {"order":42} is pending
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "styx")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (id integer PRIMARY KEY)"); err != nil {
		return err
	}

	c, err := client.New(db, client.Config{})
	if err != nil {
		return err
	}
	if err := c.Migrate(ctx); err != nil {
		return err
	}

	m, err := c.Enqueue(ctx, Ship{Order: 41}, nil)
	if err != nil {
		return err
	}
	fmt.Printf("stored %s in %s, at most %d attempts\n", m.Payload, m.Queue, m.MaxRetries)

	// Order and message commit together, or neither does.
	once := &client.EnqueueOptions{IdempotencyKey: "order-42"}
	err = db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES (42)"); err != nil {
			return err
		}
		m, err = c.EnqueueTx(ctx, tx, Ship{Order: 42}, once)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Println("stored", m.Payload, "with its order")

	// The same key again stores nothing.
	_, err = c.Enqueue(ctx, Ship{Order: 42}, once)
	if duplicate, ok := errors.AsType[*message.DuplicateError](err); ok && duplicate.ID == m.ID {
		fmt.Println("order 42 is being shipped already")
	}

	page, err := c.List(ctx, client.ListOptions{Queue: "warehouse"})
	if err != nil {
		return err
	}
	for _, m := range page.Messages {
		fmt.Println(m.Kind, m.Payload, "is", m.Status)
	}
	return nil
}
