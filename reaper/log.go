package reaper

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// sayAgain is how soon another error of a job that fails is worth a line.
const sayAgain = time.Minute

// logger writes the reaper's lines: what was done, and how trouble begins and
// ends, not that it goes on.
type logger struct {
	l *slog.Logger

	mu   sync.Mutex
	away time.Time          // since when the database has been
	down map[string]trouble // by job
}

// trouble is what a failing job said last.
type trouble struct {
	since, said time.Time
	text        string
}

// buried is the one line of a message that died here.
func (l *logger) buried(ctx context.Context, m *store.Rescued) {
	class := ""
	switch m.Decision {
	case message.DecisionWorkerLost:
		class = "styx.WorkerLost"
	case message.DecisionTimedOut:
		class = "styx.TimedOut"
	default: // expiry is no failure
	}
	l.l.ErrorContext(ctx, "message is dead",
		slog.String("queue", m.Queue), slog.String("kind", m.Kind), slog.Int64("id", m.ID),
		slog.Int("attempt", m.Attempt), slog.Int("max_retries", m.MaxRetries),
		slog.String("tenant", m.Tenant), slog.String("correlation_id", m.CorrelationID),
		slog.String("idempotency_key", m.IdempotencyKey),
		slog.String("decision", string(m.Decision)), slog.String("error_class", class),
		slog.String("error", m.LastError), slog.Int64("worker_id", m.WorkerID))
}

// hook is the line of a hook that panicked.
func (l *logger) hook(ctx context.Context, m *store.Rescued, err error) {
	l.l.ErrorContext(ctx, "hook panicked", slog.String("queue", m.Queue), slog.String("kind", m.Kind),
		slog.Int64("id", m.ID), slog.Any("error", err))
}

// did is the one line of a run that did something.
func (l *logger) did(ctx context.Context, job string, t *tally) {
	if !t.counts.Any() {
		return
	}
	c := t.counts
	attrs := []slog.Attr{slog.String("job", job)}
	for _, n := range []struct {
		key string
		n   int
	}{
		{"worker_lost", c.WorkerLost},
		{"timed_out", c.TimedOut},
		{"expired", c.Expired},
		{"dead", c.Dead},
		{"archived_deleted", c.Archived},
		{"partitions_dropped", c.Partitions},
		{"letters_deleted", c.Letters},
		{"keys_deleted", c.Keys},
		{"attempts_deleted", c.Attempts},
	} {
		if n.n > 0 {
			attrs = append(attrs, slog.Int(n.key, n.n))
		}
	}
	if len(t.dead) > 0 {
		attrs = append(attrs, slog.Int("dead_workers", c.DeadWorkers), slog.Any("worker_ids", t.dead))
	}
	if len(t.ids) > 0 {
		attrs = append(attrs, slog.Any("first_ids", t.ids))
	}
	level := slog.LevelInfo
	if c.Messages() > 0 || c.DeadWorkers > 0 {
		level = slog.LevelWarn
	}
	l.l.LogAttrs(ctx, level, "reaped", attrs...)
}

// outcome tells when trouble begins, changes or ends. That the database is
// away is said once for all jobs.
func (l *logger) outcome(ctx context.Context, job string, err error, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, store.ErrUnavailable) {
		if l.away.IsZero() {
			l.away = now
			l.l.WarnContext(ctx, "the database is not available, will try again", slog.String("job", job), slog.Any("error", err))
		}
		return
	}
	if err == nil && !l.away.IsZero() {
		l.l.InfoContext(ctx, "the database is available again", slog.Duration("after", now.Sub(l.away)))
		l.away = time.Time{}
	}
	was, failing := l.down[job]
	switch {
	case err == nil && failing:
		delete(l.down, job)
		l.l.InfoContext(ctx, "the reaper's job works again", slog.String("job", job), slog.Duration("after", now.Sub(was.since)))
	case err == nil:
	case !failing:
		l.down[job] = trouble{since: now, said: now, text: err.Error()}
		l.l.LogAttrs(ctx, slog.LevelError, "the reaper's job fails, will try again", failed(job, err)...)
	case was.text != err.Error() && now.Sub(was.said) >= sayAgain:
		l.down[job] = trouble{since: was.since, said: now, text: err.Error()}
		l.l.LogAttrs(ctx, slog.LevelError, "the reaper's job fails in another way", failed(job, err)...)
	}
}

func failed(job string, err error) []slog.Attr {
	attrs := []slog.Attr{slog.String("job", job), slog.Any("error", err)}
	if p, ok := errors.AsType[*panicError](err); ok {
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	return attrs
}
