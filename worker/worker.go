package worker

import (
	"fmt"
	"sync"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/engine"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/telemetry"
)

// Worker claims messages and runs their handlers. Make it with New, register
// handlers, then call Run once.
type Worker struct {
	cfg     Config
	store   store.Store
	tracing *telemetry.Tracing
	metrics *telemetry.WorkerMetrics

	mu            sync.Mutex
	begun         bool
	handlers      map[string]*handler
	queueHandlers map[string]*handler
}

// New returns a worker on a database opened with client/postgres or
// client/sqlite, or on the application's own *bun.DB. It does not touch the
// database and starts nothing. A Config that is not valid gives joined
// *message.ValidationErrors.
//
// The pool must allow at least 4 connections: one is reserved for beats, so
// that handlers which use up the pool cannot make the worker look dead, and
// one listens.
func New(db *bun.DB, cfg Config) (*Worker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	st, err := engine.New(db, cfg.Schema)
	if err != nil {
		return nil, err
	}
	if n := db.Stats().MaxOpenConnections; n > 0 && n < minPool {
		return nil, &message.ValidationError{
			Field: "db", Code: message.CodeOutOfRange,
			Message: fmt.Sprintf("the pool must allow at least %d connections, not %d.", minPool, n),
		}
	}
	return newWorker(st, cfg), nil
}

// newWorker takes the store as it is; tests hand in one that fails on demand.
func newWorker(st store.Store, cfg Config) *Worker {
	return &Worker{
		cfg: cfg, store: st, handlers: map[string]*handler{}, queueHandlers: map[string]*handler{},
		tracing: telemetry.NewTracing(scope, cfg.TracerProvider, cfg.Propagator, cfg.Baggage),
		metrics: telemetry.NewWorkerMetrics(cfg.MeterProvider, cfg.TenantMetrics),
	}
}

func (w *Worker) mustBeNew(what string) {
	if w.begun {
		panic("worker: " + what + " after Run")
	}
}

// handlerOf returns the handler of a message: its kind's, else its queue's.
func (w *Worker) handlerOf(queue, kind string) *handler {
	if h := w.handlers[kind]; h != nil {
		return h
	}
	return w.queueHandlers[queue]
}
