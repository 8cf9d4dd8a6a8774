package worker

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// taskKey is under what a handler's context answers with its task.
type taskKey struct{}

// Logger returns Config.Logger with what finds the message of a handler again,
// given the handler's context or one that is derived from it: message_id,
// queue, kind, attempt, the correlation_id if there is one, and the trace_id
// and span_id of the context's span. Outside a handler it returns
// slog.Default(). Keep it for the length of the handler rather than ask for it
// on each line; see [LogHandler] for lines that are written elsewhere.
func Logger(ctx context.Context) *slog.Logger {
	t, ok := ctx.Value(taskKey{}).(*task)
	if !ok {
		return slog.Default()
	}
	return slog.New(t.r.cfg.Logger.Handler().WithAttrs(inHandler(ctx, t)))
}

// LogHandler returns a handler for slog.New that adds what [Logger] has to
// every line that is written with the context of a message's handler, as by
// slog.InfoContext, and leaves others alone.
func LogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if t, ok := ctx.Value(taskKey{}).(*task); ok {
		r = r.Clone()
		r.AddAttrs(inHandler(ctx, t)...)
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }

func inHandler(ctx context.Context, t *task) []slog.Attr {
	attrs := make([]slog.Attr, 0, 7)
	attrs = append(attrs, slog.Int64("message_id", t.m.ID), slog.String("queue", t.m.Queue),
		slog.String("kind", t.m.Kind), slog.Int("attempt", t.m.Attempt))
	if t.m.CorrelationID != "" {
		attrs = append(attrs, slog.String("correlation_id", t.m.CorrelationID))
	}
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		attrs = append(attrs, slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return attrs
}
