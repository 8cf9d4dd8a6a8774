package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/styxmq/styx/client"
)

// healthView is client.Health as JSON, times in seconds.
type healthView struct {
	Schema            int                `json:"schema"`
	Known             int                `json:"known"`
	LastTick          *float64           `json:"last_tick"`
	OldestTransaction float64            `json:"oldest_transaction"`
	OldestPID         int64              `json:"oldest_pid"`
	OldestQuery       *string            `json:"oldest_query"`
	SynchronousCommit bool               `json:"synchronous_commit"`
	Overdue           int                `json:"overdue"`
	Unhandled         []client.Unhandled `json:"unhandled"`
	Connections       int                `json:"connections"`
	MaxConnections    int                `json:"max_connections"`
}

func (h *Handler) health(c *call) (*reply, error) {
	found, err := h.cfg.Client.Health(c.ctx)
	if err != nil {
		return nil, err
	}
	v := healthView{
		Schema: found.Schema, Known: found.Known, OldestTransaction: found.OldestTransaction.Seconds(),
		OldestPID: found.OldestPID, OldestQuery: text(found.OldestQuery), SynchronousCommit: found.SynchronousCommit,
		Overdue: found.Overdue, Unhandled: []client.Unhandled{}, Connections: found.Connections, MaxConnections: found.MaxConnections,
	}
	if found.LastTick >= 0 {
		s := found.LastTick.Seconds()
		v.LastTick = &s
	}
	for _, u := range found.Unhandled {
		if c.caller.reaches(u.Queue) {
			v.Unhandled = append(v.Unhandled, u)
		}
	}
	return ok(v), nil
}

// workerView is client.Worker as JSON.
type workerView struct {
	ID          int64     `json:"id"`
	Name        string    `json:"name"`
	Host        string    `json:"host"`
	PID         int       `json:"pid"`
	Version     string    `json:"version"`
	Queues      []string  `json:"queues"`
	Kinds       []string  `json:"kinds"`
	Concurrency int       `json:"concurrency"`
	Lease       float64   `json:"lease"`
	StartedAt   time.Time `json:"started_at"`
	BeatAt      time.Time `json:"beat_at"`
}

func (h *Handler) workers(c *call) (*reply, error) {
	list, err := h.cfg.Client.Workers(c.ctx)
	if err != nil {
		return nil, err
	}
	views := []workerView{}
	for _, w := range list {
		queues := []string{}
		for _, q := range w.Queues {
			if c.caller.reaches(q) {
				queues = append(queues, q)
			}
		}
		if c.caller.limited() && len(queues) == 0 {
			continue
		}
		views = append(views, workerView{
			ID: w.ID, Name: w.Name, Host: w.Host, PID: w.PID, Version: w.Version, Queues: queues, Kinds: orEmpty(w.Kinds),
			Concurrency: w.Concurrency, Lease: w.Lease.Seconds(), StartedAt: w.StartedAt.UTC(), BeatAt: w.BeatAt.UTC(),
		})
	}
	return ok(struct {
		Workers []workerView `json:"workers"`
		Count   int          `json:"count"`
	}{views, len(views)}), nil
}

func (h *Handler) audit(c *call) (*reply, error) {
	q, err := parameters(c.r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	opts := client.AuditOptions{Limit: client.DefaultPageSize}
	var id string
	q.text("queue", &opts.Queue)
	q.text("message_id", &id)
	q.integer("limit", 1, MaxLimit, &opts.Limit)
	q.text("cursor", &opts.Cursor)
	if id != "" {
		var ok bool
		if opts.MessageID, ok = parseID(id); !ok {
			q.refuse("message_id", "invalid", "message_id must be the id of a message.")
		}
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	if c.caller.limited() && !c.caller.reaches(opts.Queue) {
		return nil, errQueue
	}
	page, err := h.cfg.Client.Audit(c.ctx, opts)
	if err != nil {
		return nil, err
	}
	return ok(struct {
		Entries    []client.AuditEntry `json:"entries"`
		Count      int                 `json:"count"`
		NextCursor *string             `json:"next_cursor"`
	}{orEmpty(page.Entries), len(page.Entries), cursorOf(page.Next)}), nil
}

func (h *Handler) metrics(*call) (*reply, error) {
	if h.cfg.Metrics == nil {
		return nil, errNoRoute
	}
	return &reply{instead: h.cfg.Metrics}, nil
}

func (h *Handler) openapi(*call) (*reply, error) {
	return &reply{instead: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = typeJSON
		_, _ = w.Write(h.describe()) // whoever asked is gone
	})}, nil
}

// alive is the answer of healthz and readyz.
type alive struct {
	Status string `json:"status"`
}

func (h *Handler) healthz(*call) (*reply, error) { return ok(alive{"ok"}), nil }

// readiness remembers for a moment whether the queues can be worked, since
// anybody may ask.
type readiness struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// readyFor is how long an answer holds.
const readyFor = time.Second

func (h *Handler) readyz(c *call) (*reply, error) {
	h.ready.mu.Lock()
	defer h.ready.mu.Unlock()
	if time.Since(h.ready.at) > readyFor {
		// Whoever gives up must not leave the next one with his error.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), h.cfg.Timeout)
		defer cancel()
		h.ready.err = h.isReady(ctx)
		h.ready.at = time.Now()
	}
	if h.ready.err != nil {
		return nil, h.ready.err
	}
	return ok(alive{"ready"}), nil
}

// isReady is nil, or says what is amiss.
func (h *Handler) isReady(ctx context.Context) error {
	found, err := h.cfg.Client.Health(ctx)
	switch {
	case err != nil && problemOf(err).kind == unavailable:
		return notReady.problem("The database cannot be reached.")
	case err != nil:
		return err
	case found.Schema < found.Known:
		return notReady.problem(fmt.Sprintf("The schema is at version %d; this server needs %d.", found.Schema, found.Known))
	case found.Schema > found.Known:
		return notReady.problem(fmt.Sprintf("The schema is at version %d; this server knows %d.", found.Schema, found.Known))
	case h.cfg.TickLimit < 0:
	case found.LastTick < 0:
		return notReady.problem("No reaper has finished a tick yet.")
	case found.LastTick > h.cfg.TickLimit:
		return notReady.problem(fmt.Sprintf("No reaper has finished a tick within %s.", h.cfg.TickLimit))
	}
	return nil
}
