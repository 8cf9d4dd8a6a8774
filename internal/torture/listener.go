//go:build unix

package torture

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/styxmq/styx/internal/torture/history"
)

// maxLines bounds what one process says of itself.
const maxLines = 200

// listener reads a worker's log: a rejected outcome is told nowhere else. Of
// the rest it keeps errors that are not expected.
type listener struct {
	h     *history.Writer
	out   io.Writer
	lines atomic.Int64
}

var _ slog.Handler = (*listener)(nil)

// Enabled takes warnings and errors.
func (l *listener) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle notes a lost lease and writes other errors.
func (l *listener) Handle(_ context.Context, r slog.Record) error {
	var id, token int64
	text := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "id":
			id = a.Value.Int64()
		case "lease_token":
			token = a.Value.Int64()
		case "error", "worker_id", "silent_for", "messages":
			value := a.Value.String()
			text += " " + a.Key + "=" + value[:min(len(value), 200)]
		}
		return true
	})
	if id != 0 && token != 0 && strings.HasPrefix(r.Message, "lease lost") {
		l.h.Add(history.Event{Kind: history.Rejected, ID: id, Token: token})
	}
	if id == 0 && l.lines.Add(1) <= maxLines {
		fmt.Fprintln(l.out, r.Time.Format("15:04:05.000"), text)
	}
	return nil
}

// WithAttrs returns the same handler.
func (l *listener) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup returns the same handler.
func (l *listener) WithGroup(string) slog.Handler { return l }
