package client

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/styxmq/styx/internal/store"
)

// Health says whether the queues can be worked.
type Health struct {
	// Schema is the version of the database's schema, Known the newest that
	// this program knows.
	Schema int `json:"schema"`
	Known  int `json:"known"`
	// LastTick is how long ago a reaper finished a tick; negative: never.
	LastTick time.Duration `json:"last_tick"`
	// OldestTransaction is how long the oldest transaction of the database
	// has been open, which holds vacuum back; OldestPID and OldestQuery name
	// it. 0 on SQLite.
	OldestTransaction time.Duration `json:"oldest_transaction"`
	OldestPID         int64         `json:"oldest_pid,omitempty"`
	OldestQuery       string        `json:"oldest_query,omitempty"`
	// SynchronousCommit reports whether a commit waits for the disk: without
	// it an acknowledged message can be lost in a crash.
	SynchronousCommit bool `json:"synchronous_commit"`
	// Overdue counts processing messages that a reaper should have taken
	// back, up to StatsCap.
	Overdue int `json:"overdue"`
	// Unhandled are kinds among the oldest ready messages that no live
	// worker of their queue handles.
	Unhandled []Unhandled `json:"unhandled"`
	// Connections and MaxConnections are the server's; 0 on SQLite.
	Connections    int `json:"connections"`
	MaxConnections int `json:"max_connections"`
}

// Unhandled is a kind that no live worker of the queue handles.
type Unhandled struct {
	Queue string `json:"queue"`
	Kind  string `json:"kind"`
}

// Worker is a worker that lives.
type Worker struct {
	ID          int64         `json:"id"`
	Name        string        `json:"name"`
	Host        string        `json:"host"`
	PID         int           `json:"pid"`
	Version     string        `json:"version"`
	Queues      []string      `json:"queues"`
	Kinds       []string      `json:"kinds"`
	Concurrency int           `json:"concurrency"`
	Lease       time.Duration `json:"lease"`
	StartedAt   time.Time     `json:"started_at"`
	BeatAt      time.Time     `json:"beat_at"`
}

// Health looks at the database and at who serves the queues. Its cost is
// bounded. An old or missing schema is no error here: Schema is smaller than
// Known then, and the rest is not looked at.
func (c *Client) Health(ctx context.Context) (Health, error) {
	current, known, err := c.store.SchemaVersion(ctx)
	if err != nil {
		return Health{}, fmt.Errorf("read the schema's version: %w", err)
	}
	h := Health{Schema: current, Known: known, LastTick: -1, Unhandled: []Unhandled{}}
	if current != known {
		return h, nil
	}
	cond, err := c.store.Condition(ctx)
	if err != nil {
		return Health{}, fmt.Errorf("look at the database: %w", err)
	}
	h.LastTick, h.OldestTransaction, h.OldestPID, h.OldestQuery = cond.LastTick, cond.OldestTransaction, cond.OldestPID, cond.OldestQuery
	h.SynchronousCommit, h.Overdue = cond.SynchronousCommit, cond.Overdue
	h.Connections, h.MaxConnections = cond.Connections, cond.MaxConnections
	for _, u := range cond.Unhandled {
		h.Unhandled = append(h.Unhandled, Unhandled(u))
	}
	return h, nil
}

// Workers returns the workers that live, newest first, at most 1,000.
func (c *Client) Workers(ctx context.Context) ([]Worker, error) {
	const most = 1000
	states, err := c.store.Workers(ctx, most)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	workers := make([]Worker, len(states))
	for i, s := range states {
		workers[i] = Worker{
			ID: s.ID, Name: s.Name, Host: s.Host, PID: s.PID, Version: s.Version, Queues: s.Queues, Kinds: s.Kinds,
			Concurrency: s.Concurrency, Lease: s.Lease, StartedAt: s.StartedAt, BeatAt: s.BeatAt,
		}
	}
	return workers, nil
}

// AuditOptions select what operators did. Empty fields select everything.
type AuditOptions struct {
	Queue     string
	MessageID int64
	// Cursor is AuditPage.Next of the page before; empty is the first page.
	Cursor string
	// Limit is the largest number of entries, 1 to MaxPageSize. Defaults to
	// DefaultPageSize.
	Limit int
}

// AuditEntry is one thing that an operator did.
type AuditEntry struct {
	ID     int64     `json:"id"`
	At     time.Time `json:"at"`
	Action string    `json:"action"`
	Actor  string    `json:"actor,omitempty"`
	// Origin is where the request came from.
	Origin    string `json:"origin,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Queue     string `json:"queue,omitempty"`
	MessageID int64  `json:"message_id,omitempty"`
	// Affected is the number of messages.
	Affected int64 `json:"affected"`
}

// AuditPage is one page of what operators did.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	// Next is the cursor of the next page, empty when there is none.
	Next string `json:"next,omitempty"`
}

// Audit returns what operators did, newest first. A bad filter, limit or
// cursor is a [*message.ValidationError].
func (c *Client) Audit(ctx context.Context, opts AuditOptions) (AuditPage, error) {
	var p problems
	p.filter("queue", opts.Queue)
	limit := p.limit(opts.Limit)
	scope := []string{"audit", opts.Queue, strconv.FormatInt(opts.MessageID, 10)}
	after, err := decodeCursor(opts.Cursor, scope...)
	p.collect(err)
	if err := p.err(); err != nil {
		return AuditPage{}, err
	}
	entries, err := c.store.Audit(ctx, store.AuditQuery{
		Queue: opts.Queue, MessageID: opts.MessageID, After: after, Limit: limit + 1,
	})
	if err != nil {
		return AuditPage{}, fmt.Errorf("list the audit log: %w", err)
	}
	page := AuditPage{Entries: make([]AuditEntry, 0, len(entries))}
	for _, e := range entries[:min(limit, len(entries))] {
		page.Entries = append(page.Entries, AuditEntry(e))
	}
	if len(entries) > limit {
		page.Next = encodeCursor(entries[limit-1].ID, scope...)
	}
	return page, nil
}
