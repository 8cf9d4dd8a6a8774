package worker_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

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

// logger writes into the journal.
func (j *journal) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(j, nil)) }

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

// The messages of the lines about attempts.
const (
	lineFailed = "attempt failed"
	lineDead   = "message is dead"
)

// lines returns the lines with one of the messages, all for none.
func (j *journal) lines(t *testing.T, messages ...string) []map[string]any {
	t.Helper()
	var list []map[string]any
	for line := range strings.Lines(j.String()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		wanted := len(messages) == 0
		for _, m := range messages {
			wanted = wanted || fields["msg"] == m
		}
		if wanted {
			list = append(list, fields)
		}
	}
	return list
}
