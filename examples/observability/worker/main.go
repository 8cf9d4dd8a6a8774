// Worker is a program with metrics and traces: it enqueues orders and works
// them, some of which fail.
//
//	go run ./examples/observability/worker -metrics-listen 127.0.0.1:9465
//
// Prometheus finds its metrics under /metrics at the given address. Metrics
// and traces go to a collector by OTLP too when the standard variables say so,
// such as OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318.
//
// The database is the one that DATABASE_URL names, else the SQLite file
// styx.db in the working folder. A reaper should run on it as well.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/client/sqlite"
	"github.com/styxmq/styx/worker"
)

type settings struct {
	listen string
	rate   time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.listen, "metrics-listen", "", "the `address` at which Prometheus finds /metrics")
	flag.DurationVar(&s.rate, "every", 50*time.Millisecond, "how often an order is enqueued")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) (err error) {
	// The SDK comes first, so that everything below is seen.
	signals, err := observe(ctx, s.listen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, signals.stop(ctx)) }()

	db, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := client.New(db, client.Config{MeterProvider: signals.meters, TracerProvider: signals.tracers})
	if err != nil {
		return err
	}
	if err := c.Migrate(ctx); err != nil {
		return err
	}
	w, err := worker.New(db, worker.Config{
		Queues:        []worker.Queue{{Name: "orders"}, {Name: "mail"}},
		RetryPolicy:   worker.Exponential{Base: 500 * time.Millisecond},
		MeterProvider: signals.meters, TracerProvider: signals.tracers,
		Logger: slog.New(slog.DiscardHandler), // orders fail on purpose
	})
	if err != nil {
		return err
	}
	shop := shop{c}
	worker.Handle(w, shop.ship, nil)
	worker.Handle(w, shop.send, nil)

	selling := make(chan error, 1)
	go func() { selling <- shop.sell(ctx, s.rate) }()
	return errors.Join(w.Run(ctx), <-selling)
}

// open takes the database that the environment names.
func open(ctx context.Context) (*bun.DB, error) {
	url := os.Getenv("DATABASE_URL")
	if strings.HasPrefix(url, "postgres") {
		return postgres.Open(ctx, url)
	}
	if url == "" {
		url = "styx.db"
	}
	return sqlite.Open(ctx, strings.TrimPrefix(url, "sqlite:"))
}

// shop sells and ships.
type shop struct{ c *client.Client }

// Order is to be shipped.
type Order struct {
	Number int `json:"number"`
}

// Kind names the messages of orders.
func (Order) Kind() string { return "order" }

// Mail tells of an order.
type Mail struct {
	Order int `json:"order"`
}

// Kind names the messages of mail.
func (Mail) Kind() string { return "mail" }

// errCarrier passes, errAddress does not.
var (
	errCarrier = errors.New("the carrier does not answer")
	errAddress = errors.New("there is no such address")
)

// sell enqueues orders until ctx ends. Every fiftieth is a newsletter that
// nobody is there to send, and which soon is no news any more.
func (s shop) sell(ctx context.Context, every time.Duration) error {
	for number := 1; ; number++ {
		_, err := s.c.Enqueue(ctx, Order{number}, &client.EnqueueOptions{Queue: "orders", MaxRetries: 3})
		if err == nil && number%50 == 1 {
			_, err = s.c.Enqueue(ctx, Mail{}, &client.EnqueueOptions{Queue: "newsletter", ExpiresIn: time.Second})
		}
		if err != nil && !errors.Is(err, client.ErrUnavailable) && ctx.Err() == nil {
			return fmt.Errorf("sell: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// ship fails for good, for now, or not at all.
func (s shop) ship(ctx context.Context, m *worker.Message[Order]) error {
	pause := time.Duration(rand.IntN(20)) * time.Millisecond //nolint:gosec // only a demonstration
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
	}
	switch {
	case m.Payload.Number%20 == 3:
		return worker.Permanent(errAddress)
	case m.Payload.Number%5 == 2 && m.Attempt == 1:
		return errCarrier
	}
	// The mail carries on the trace of the order.
	_, err := s.c.Enqueue(ctx, Mail{m.Payload.Number}, &client.EnqueueOptions{Queue: "mail"})
	return err
}

func (s shop) send(context.Context, *worker.Message[Mail]) error { return nil }
