package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/failure"
	"github.com/styxmq/styx/internal/store"
)

// logger writes the worker's lines. Nothing is written of what went well.
type logger struct{ l *slog.Logger }

// newLogger survives a handler of log lines that panics: what it was told about
// must go on.
func newLogger(l *slog.Logger) logger { return logger{slog.New(calm{l.Handler()})} }

// calm is a handler whose panics are errors.
type calm struct{ slog.Handler }

// Enabled reports false when it panics.
func (c calm) Enabled(ctx context.Context, level slog.Level) (ok bool) {
	defer func() { ok = recover() == nil && ok }()
	return c.Handler.Enabled(ctx, level)
}

// Handle turns a panic into an error.
func (c calm) Handle(ctx context.Context, record slog.Record) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("log handler panicked: %v", v)
		}
	}()
	return c.Handler.Handle(ctx, record)
}

// WithAttrs stays calm.
func (c calm) WithAttrs(attrs []slog.Attr) slog.Handler { return calm{c.Handler.WithAttrs(attrs)} }

// WithGroup stays calm.
func (c calm) WithGroup(name string) slog.Handler { return calm{c.Handler.WithGroup(name)} }

// identity are the attributes that find a message again.
func identity(t *task) []any {
	attrs := []any{
		slog.String("queue", t.m.Queue), slog.String("kind", t.m.Kind), slog.Int64("id", t.m.ID),
		slog.Int("attempt", t.m.Attempt), slog.Int("max_retries", t.m.MaxRetries),
		slog.String("tenant", t.m.Tenant), slog.String("correlation_id", t.m.CorrelationID),
		slog.String("idempotency_key", t.m.IdempotencyKey),
	}
	if sc := t.spanContext(); sc.IsValid() {
		attrs = append(attrs, slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return attrs
}

// failed is the one line of a failed attempt or dead letter.
func (l logger) failed(t *task, s *store.Settlement) {
	level, decision := slog.LevelWarn, "retry"
	if s.Verb == store.Bury {
		level, decision = slog.LevelError, string(s.Failure.Decision)
	}
	attrs := append(identity(t),
		slog.String("decision", decision), slog.String("failure_kind", string(s.Failure.Kind)),
		slog.String("error_class", s.Failure.Class), slog.String("error", s.Failure.Message),
		slog.String("fingerprint", s.Failure.Fingerprint), slog.Duration("retry_in", s.Delay),
		slog.Duration("elapsed", s.Elapsed))
	if s.Verb == store.Bury {
		l.l.Log(t.Context, level, "message is dead", attrs...)
		return
	}
	l.l.Log(t.Context, level, "attempt failed", attrs...)
}

func (l logger) lost(t *task) {
	l.l.WarnContext(t.Context, "lease lost: the outcome of this attempt does not count",
		append(identity(t), slog.Int64("lease_token", t.m.LeaseToken))...)
}

func (l logger) abandoned(t *task) {
	l.l.ErrorContext(t.Context, "handler did not return after its context ended, its goroutine runs on",
		append(identity(t), slog.Duration("elapsed", t.elapsed()))...)
}

func (l logger) callback(t *task, what string, value any) {
	l.l.ErrorContext(t.Context, "callback panicked, the default is used",
		append(identity(t), slog.String("callback", what), slog.String("panic", failure.Clean(fmt.Sprint(value), maxNote)))...)
}

func (l logger) hook(t *task, what, text string) {
	l.l.ErrorContext(t.Context, "hook panicked",
		append(identity(t), slog.String("hook", what), slog.String("panic", failure.Clean(text, maxNote)))...)
}

func (l logger) gaveUp(batch []settled, err error) {
	for _, s := range batch {
		l.l.ErrorContext(s.task.Context, "outcome could not be recorded, the message will run again",
			append(identity(s.task), slog.Any("error", err))...)
	}
}

func (l logger) settle(ctx context.Context, n int, err error) {
	l.l.WarnContext(ctx, "record outcomes, will try again", slog.Int("messages", n), slog.Any("error", err))
}

func (l logger) claim(ctx context.Context, queue string, err error) {
	l.l.WarnContext(ctx, "claim messages, will try again", slog.String("queue", queue), slog.Any("error", err))
}

func (l logger) beat(ctx context.Context, err error) {
	l.l.WarnContext(ctx, "show that the worker is alive, will try again", slog.Any("error", err))
}

func (l logger) dead(ctx context.Context, inc *incarnation, silent time.Duration) {
	l.l.ErrorContext(ctx, "the worker counts as dead, gives up its messages and registers anew",
		slog.Int64("worker_id", inc.id), slog.Duration("silent_for", silent), slog.Any("error", message.ErrLeaseLost))
}

func (l logger) orphans(ctx context.Context, n int) {
	l.l.WarnContext(ctx, "released messages whose claim had lost its reply", slog.Int("messages", n))
}

func (l logger) listen(ctx context.Context, err error) {
	l.l.WarnContext(ctx, "listen for new messages, polling meanwhile", slog.Any("error", err))
}

func (l logger) pollOnly(ctx context.Context, every time.Duration) {
	l.l.InfoContext(ctx, "this connection cannot be listened on, polling only", slog.Duration("every", every))
}
