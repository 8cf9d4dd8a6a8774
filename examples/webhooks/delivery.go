package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/styxmq/styx/client"
)

const (
	// batch is how many deliveries one transaction enqueues.
	batch = 100
	// maxLine bounds the memory that one line takes.
	maxLine = 4 << 20
	// numberHeader carries the number of the delivery's line.
	numberHeader = "delivery"
)

// delivery is a line of the file. The payload stays the text that it is:
// large numbers keep their digits, and keys their order.
type delivery struct {
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload"`
}

// enqueueAll enqueues every delivery, a batch at a time, and returns their
// number.
func enqueueAll(ctx context.Context, c *client.Client, in io.Reader) (n int, err error) {
	items := make([]client.Item, 0, batch)
	flush := func() error {
		_, err := c.EnqueueMany(ctx, items)
		items = items[:0]
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		n++
		var d delivery
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return n, fmt.Errorf("read delivery %d: %w", n, err)
		}
		items = append(items, client.Item{
			Payload: client.Raw{Name: d.Event, Text: string(d.Payload)},
			Options: &client.EnqueueOptions{
				Queue:   queue,
				Headers: map[string]string{numberHeader: strconv.Itoa(n)},
			},
		})
		if len(items) == batch {
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return n, fmt.Errorf("read delivery %d: %w", n+1, err)
	}
	return n, flush()
}
