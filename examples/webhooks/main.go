// Webhooks works the deliveries of GitHub webhooks, one a line of a file:
//
//	go run ./examples/webhooks
//	go run ./examples/webhooks -in deliveries.jsonl
//
// A line is {"event": "push", "payload": {…}}, and the event becomes the kind
// of the message. Some kinds have handlers with types of their own, one
// handler takes all others. A delivery without a repository can never be
// worked, so it dies at once, and every fifth one meets a network that works
// only the second time.
//
// Without -in it reads a small sample. The messages go to the database that
// STYX_DATABASE_URL or DATABASE_URL names, there into a schema of their own,
// else to SQLite in a temporary folder. Nothing is left behind.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/worker"
)

// queue holds the deliveries.
const queue = "webhooks"

//go:embed sample.jsonl
var sample []byte

func main() {
	path := flag.String("in", "", "`file` of deliveries, one a line, instead of the sample")
	flag.Parse()
	// The first Ctrl-C stops everything in good order, the second at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, *path); err != nil {
		fmt.Fprintln(os.Stderr, "webhooks:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string) (err error) {
	var in io.Reader = bytes.NewReader(sample)
	if path != "" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	db, schema, closeDB, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDB()) }()

	// A failed attempt is a line of the log. The handlers here fail on
	// purpose, so there is no log.
	c, err := client.New(db, client.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := c.Migrate(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove(ctx, c)) }()

	n, err := enqueueAll(ctx, c, in)
	if err != nil {
		return err
	}
	fmt.Printf("%d deliveries are enqueued.\n\n", n)

	seen, err := work(ctx, db, schema, c)
	if err != nil {
		return err
	}
	if twice := seen.ranAgain(); len(twice) > 0 {
		return fmt.Errorf("messages %v ran again after they had succeeded", twice)
	}
	return report(ctx, c, os.Stdout)
}

// work runs a worker until the queue is worked off.
func work(ctx context.Context, db *bun.DB, schema string, c *client.Client) (*log, error) {
	seen := newLog()
	w, err := worker.New(db, worker.Config{
		Schema:     schema,
		Queues:     []worker.Queue{{Name: queue, Concurrency: 20, RetryPolicy: worker.Delays{100 * time.Millisecond}}},
		Middleware: []worker.Middleware{seen.watch, flaky},
		Logger:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	worker.Handle(w, onPush, nil)
	worker.Handle(w, onIssue, nil)
	worker.Handle(w, onPullRequest, nil)
	worker.HandleQueue(w, queue, onAnything, nil)

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for {
		select {
		case err := <-ended:
			return seen, errors.Join(err, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
		if left, err := waiting(ctx, c); err != nil || left == 0 {
			stop()
			return seen, errors.Join(err, <-ended)
		}
	}
}

// waiting counts the messages that are not done yet.
func waiting(ctx context.Context, c *client.Client) (left int, err error) {
	stats, err := c.Stats(ctx)
	for _, s := range stats {
		left += s.Ready + s.Scheduled + s.Processing
	}
	return left, err
}
