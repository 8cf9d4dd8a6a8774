// Tracing follows one message through every trace that it leaves: an HTTP
// request enqueues it, its first attempt fails, the retry too, so that it is
// dead, and a replay succeeds. It runs on SQLite in a temporary folder or, with
// DATABASE_URL set, in a PostgreSQL schema of its own.
//
//	go run ./examples/tracing
//
// The spans are kept in memory to be printed; a real program has an exporter
// there. Nothing else is special: client and worker use the global provider.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/client/sqlite"
	"github.com/styxmq/styx/worker"
)

type Mail struct{ To string }

func (Mail) Kind() string { return "mail" }

// send fails until the message is replayed. Its context carries the span of
// the attempt, so that what it does is a part of that.
func send(ctx context.Context, m *worker.Message[Mail]) error {
	_, span := otel.Tracer("mailer").Start(ctx, "deliver")
	defer span.End()
	if m.ReplayCount == 0 {
		return errors.New("the mailbox is full")
	}
	return nil
}

func main() {
	ctx, stop := context.WithCancel(context.Background())
	slog.SetLogLoggerLevel(slog.LevelError + 1) // failures are logged, but happen here on purpose
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	otel.SetTracerProvider(provider)

	folder := must(os.MkdirTemp("", "styx_tracing_"))
	defer os.RemoveAll(folder)
	open, url, schema := sqlite.Open, filepath.Join(folder, "styx.db"), ""
	if env := os.Getenv("DATABASE_URL"); env != "" {
		open, url, schema = postgres.Open, env, strings.ToLower(filepath.Base(folder))
	}
	db := must(open(ctx, url))
	defer db.Close()
	c := must(client.New(db, client.Config{Schema: schema}))
	must(c.Migrations().Up(ctx))
	defer func() { must(c.Migrations().Down(context.WithoutCancel(ctx), 0)) }()

	mux := http.NewServeMux()
	mux.HandleFunc("POST /mails", func(rw http.ResponseWriter, r *http.Request) {
		m := must(c.Enqueue(r.Context(), Mail{To: "ada"}, &client.EnqueueOptions{MaxRetries: 2}))
		fmt.Fprint(rw, m.ID)
	})
	server := httptest.NewServer(otelhttp.NewHandler(mux, "http", otelhttp.WithTracerProvider(provider)))
	defer server.Close()
	var id int64
	reply, err := server.Client().Do(must(http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/mails", nil)))
	must(0, err)
	must(fmt.Fscan(reply.Body, &id))
	must(0, reply.Body.Close())

	w := must(worker.New(db, worker.Config{Schema: schema, RetryPolicy: worker.Delays{10 * time.Millisecond}}))
	worker.Handle(w, send, nil)
	var running sync.WaitGroup
	running.Go(func() { must(0, w.Run(ctx)) })
	wait(ctx, c, id, message.StatusDead)
	must(0, c.DeadLetters().Replay(ctx, id, nil))
	wait(ctx, c, id, message.StatusSucceeded)
	stop()
	running.Wait()
	show(exporter.GetSpans())
	must(0, provider.Shutdown(context.WithoutCancel(ctx)))
}

func wait(ctx context.Context, c *client.Client, id int64, status message.Status) {
	for must(c.Get(ctx, id)).Status != status {
		time.Sleep(10 * time.Millisecond)
	}
}

// show prints the spans as a tree for each trace. Settling is left out: there
// is a span for each batch of outcomes.
func show(spans tracetest.SpanStubs) {
	number := map[trace.SpanID]int{}
	var tree func(parent trace.SpanID, indent string)
	tree = func(parent trace.SpanID, indent string) {
		for _, s := range byStart(spans) {
			if s.Parent.SpanID() != parent || strings.HasPrefix(s.Name, "settle") {
				continue
			}
			number[s.SpanContext.SpanID()] = len(number) + 1
			line := fmt.Sprintf("%s%d %s (%s)", indent, len(number), s.Name, s.SpanKind)
			for _, key := range []attribute.Key{"styx.attempt", "styx.outcome", "styx.decision"} {
				if set := attribute.NewSet(s.Attributes...); set.HasValue(key) {
					v, _ := set.Value(key)
					line += fmt.Sprintf(", %s %s", strings.TrimPrefix(string(key), "styx."), v.String())
				}
			}
			for _, l := range s.Links {
				set := attribute.NewSet(l.Attributes...)
				v, _ := set.Value("styx.link")
				line += fmt.Sprintf(", link to %s in %d", v.String(), number[l.SpanContext.SpanID()])
			}
			if s.Status.Description != "" {
				line += ": " + s.Status.Description
			}
			fmt.Println(line)
			tree(s.SpanContext.SpanID(), indent+"  ")
		}
	}
	tree(trace.SpanID{}, "")
}

func byStart(spans tracetest.SpanStubs) tracetest.SpanStubs {
	slices.SortFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	return spans
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
