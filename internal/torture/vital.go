//go:build unix

package torture

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/styxmq/styx/client/message"
)

// vitals are what a process tells of itself every so often.
type vitals struct {
	Goroutines int   `json:"goroutines"`
	RSS        int64 `json:"rss"` // bytes, 0 where it is not known
	// WaitP99 is that of the time from enqueue to handler, in microseconds, of
	// the Waits messages that began since the last time.
	WaitP99 int64 `json:"wait_p99"`
	Waits   int   `json:"waits"`
}

// waits collects how long messages waited for their first attempt. The zero
// value is ready; it is safe for concurrent use.
type waits struct {
	mu  sync.Mutex
	all []int64
}

// add takes a message whose handler begins now. Those that had to wait, for a
// time or behind others, tell nothing.
func (w *waits) add(m *message.Message) {
	if m.LeaseToken != 1 || m.Priority > 0 || !m.RetryAfter.IsZero() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, max(0, time.Since(m.CreatedAt).Microseconds()))
}

func (w *waits) take() (p99 int64, n int) {
	w.mu.Lock()
	all := w.all
	w.all = nil
	w.mu.Unlock()
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, len(all)*99/100)], len(all)
}

// tellVitals writes them to the process's file until ctx ends.
func (p *player) tellVitals(ctx context.Context) {
	path := vitalsFile(p.Dir, p.Name)
	for pause(ctx, p.Vitals) {
		v := vitals{Goroutines: runtime.NumGoroutine(), RSS: rss()}
		v.WaitP99, v.Waits = p.waits.take()
		text, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(path+".new", text, 0o600)
		}
		if err == nil {
			_ = os.Rename(path+".new", path) // the next one is as good
		}
	}
}

func vitalsFile(dir, process string) string { return filepath.Join(dir, process+".vitals") }

func readVitals(dir, process string) (v vitals, ok bool) {
	text, err := os.ReadFile(vitalsFile(dir, process))
	return v, err == nil && json.Unmarshal(text, &v) == nil
}

// rss is the resident memory of this process.
func rss() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
