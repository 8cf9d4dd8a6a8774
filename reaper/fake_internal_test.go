package reaper

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

// fake is a store whose answers a test gives. What it does not set finds
// nothing to do.
type fake struct {
	version int

	mu      sync.Mutex
	calls   map[string][]time.Time
	bury    func(ctx context.Context) ([]int64, error)
	rescue  func(ctx context.Context, limit int) ([]store.Rescued, error)
	sweep   func(ctx context.Context, after int64, limit int) ([]store.Rescued, int64, error)
	expire  func(ctx context.Context, limit int) ([]store.Rescued, error)
	prepare func(ctx context.Context) error
	retain  func(ctx context.Context, r store.Retention) (store.Retained, bool, error)
}

func newFake() *fake { return &fake{version: 1, calls: map[string][]time.Time{}} }

func (f *fake) call(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[name] = append(f.calls[name], time.Now())
}

// times are when a method was called.
func (f *fake) times(name string) []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[name]
}

func (f *fake) count(name string) int { return len(f.times(name)) }

func (f *fake) SchemaVersion(context.Context) (current, known int, err error) {
	return f.version, 1, nil
}

func (f *fake) Ticked(context.Context) error {
	f.call("ticked")
	return nil
}

func (f *fake) BuryWorkers(ctx context.Context) ([]int64, error) {
	f.call("bury")
	if f.bury == nil {
		return nil, nil
	}
	return f.bury(ctx)
}

func (f *fake) Rescue(ctx context.Context, limit int) ([]store.Rescued, error) {
	f.call("rescue")
	if f.rescue == nil {
		return nil, nil
	}
	return f.rescue(ctx, limit)
}

func (f *fake) Sweep(ctx context.Context, after int64, limit int) ([]store.Rescued, int64, error) {
	f.call("sweep")
	if f.sweep == nil {
		return nil, 0, nil
	}
	return f.sweep(ctx, after, limit)
}

func (f *fake) Expire(ctx context.Context, limit int) ([]store.Rescued, error) {
	f.call("expire")
	if f.expire == nil {
		return nil, nil
	}
	return f.expire(ctx, limit)
}

func (f *fake) Prepare(ctx context.Context) error {
	f.call("prepare")
	if f.prepare == nil {
		return nil
	}
	return f.prepare(ctx)
}

func (f *fake) Retain(ctx context.Context, r store.Retention) (store.Retained, bool, error) {
	f.call("retain")
	if f.retain == nil {
		return store.Retained{}, false, nil
	}
	return f.retain(ctx, r)
}

// journal collects log lines.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// lines returns the lines with the message, all for an empty one.
func (j *journal) lines(t *testing.T, msg string) []map[string]any {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	var list []map[string]any
	for line := range strings.Lines(j.b.String()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		if msg == "" || fields["msg"] == msg {
			list = append(list, fields)
		}
	}
	return list
}
