package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

// count is what became of the deliveries of one event.
type count struct{ succeeded, retried, dead int }

// report counts every delivery in the database and prints the table.
func report(ctx context.Context, c *client.Client, out io.Writer) error {
	var sum count
	total := 0
	events := map[string]*count{}
	for m, err := range messages(ctx, c) {
		if err != nil {
			return err
		}
		n := events[m.Kind]
		if n == nil {
			n = new(count)
			events[m.Kind] = n
		}
		total++
		failed := m.RetryCount
		switch m.Status {
		case message.StatusSucceeded:
			n.succeeded++
			sum.succeeded++
		case message.StatusDead:
			n.dead++
			sum.dead++
			failed-- // the last attempt was not retried
		default:
			return fmt.Errorf("message %d is %s", m.ID, m.Status)
		}
		if failed > 0 {
			n.retried++
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "event\tsucceeded\tretried\tdead")
	for _, event := range slices.Sorted(maps.Keys(events)) {
		n := events[event]
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\n", event, n.succeeded, n.retried, n.dead)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\ntotal %d succeeded %d dead %d\n", total, sum.succeeded, sum.dead)
	return err
}

// messages walks the queue page by page, whatever the status.
func messages(ctx context.Context, c *client.Client) func(yield func(message.Message, error) bool) {
	return func(yield func(message.Message, error) bool) {
		opts := client.ListOptions{Queue: queue, Limit: client.MaxPageSize}
		for {
			page, err := c.List(ctx, opts)
			if err != nil {
				yield(message.Message{}, err)
				return
			}
			for _, m := range page.Messages {
				if !yield(m, nil) {
					return
				}
			}
			if opts.Cursor = page.Next; opts.Cursor == "" {
				return
			}
		}
	}
}
