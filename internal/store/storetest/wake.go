package storetest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

// Workers always poll as well; these are about not having to wait for it.
var wakeProperties = []property{
	{"an enqueue elsewhere wakes an idle worker", wakeEnqueue},
	{"a transaction that commits wakes", wakeCommit},
	{"a batch and a replay wake", wakeOthers},
	{"two enqueues close together, then silence", wakePairs},
	{"Listen ends with its context", wakeEnds},
	{"SetIdle may be repeated", wakeIdle},
}

// listener counts the wake-ups of an idle worker.
type listener struct {
	t      *testing.T
	mu     sync.Mutex
	count  int
	change chan struct{}
}

// listen subscribes an idle worker of the queue q and returns when it is
// heard.
func (f *fixture) listen(producer store.Store) *listener {
	f.t.Helper()
	l := &listener{t: f.t, change: make(chan struct{}, 1)}
	w := f.worker()
	require.NoError(f.t, f.Store.SetIdle(f.t.Context(), w.id, "q", true))
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- f.Store.Listen(ctx, func(queue string) {
			if queue != "" && queue != "q" {
				return
			}
			l.mu.Lock()
			l.count++
			l.mu.Unlock()
			select {
			case l.change <- struct{}{}:
			default:
			}
		})
	}()
	f.t.Cleanup(func() {
		cancel()
		<-ended
	})
	require.Eventually(f.t, func() bool {
		select {
		case err := <-ended:
			ended <- err
			require.NoError(f.t, err, "the listener ended")
		default:
		}
		m := filled(store.NewMessage{})
		_, err := producer.Insert(f.t.Context(), nil, &m)
		require.NoError(f.t, err)
		return l.seen() > 0
	}, patience, 20*time.Millisecond)
	return l
}

func (l *listener) seen() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// after waits for a wake-up beyond those seen before.
func (l *listener) after(before int) {
	l.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for l.seen() <= before {
		select {
		case <-l.change:
		case <-deadline.C:
			require.Fail(l.t, "nobody was woken")
		}
	}
}

// quiet waits until no wake-up has come for a while, so that the next one has
// a reason of its own.
func (l *listener) quiet() int {
	for {
		select {
		case <-l.change:
		case <-time.After(60 * time.Millisecond):
			return l.seen()
		}
	}
}

// saurabhnanda/odd-jobs#42: the notification held the whole row, so that none
// of more than 8,000 bytes could be enqueued.
func wakeEnqueue(t *testing.T, f *fixture) {
	producer := f.Reopen(t)
	l := f.listen(producer)
	for _, size := range []int{2, 7900, 8100, 1 << 20} {
		before := l.quiet()
		m := filled(store.NewMessage{Payload: strings.Repeat("x", size)})
		_, err := producer.Insert(t.Context(), nil, &m)
		require.NoError(t, err)
		l.after(before)
	}
}

func wakeCommit(t *testing.T, f *fixture) {
	l := f.listen(f.Store)
	for range 3 {
		tx := f.begin(nil)
		f.putTx(tx, store.NewMessage{})
		before := l.quiet()
		require.NoError(t, tx.Commit())
		l.after(before)
	}
}

func wakeOthers(t *testing.T, f *fixture) {
	l := f.listen(f.Store)
	before := l.quiet()
	f.puts(3, store.NewMessage{})
	l.after(before)
	w := f.worker()
	dead := w.take("q", 1)[0]
	w.settle(bury(dead))
	before = l.quiet()
	require.NoError(t, f.Store.Replay(t.Context(), dead.ID, ann))
	l.after(before)
}

func wakePairs(t *testing.T, f *fixture) {
	producer := f.Reopen(t)
	l := f.listen(producer)
	for i := range 21 {
		m := filled(store.NewMessage{})
		_, err := producer.Insert(t.Context(), nil, &m)
		require.NoError(t, err)
		<-time.After(time.Duration(i%7) * time.Millisecond)
		before := l.seen()
		_, err = producer.Insert(t.Context(), nil, &m)
		require.NoError(t, err)
		l.after(before)
		l.quiet()
	}
}

func wakeEnds(t *testing.T, f *fixture) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Store.Listen(ctx, func(string) {}) }()
	cancel()
	select {
	case <-ended:
	case <-time.After(patience):
		require.Fail(t, "Listen goes on after its context")
	}
	f.put(store.NewMessage{})
}

func wakeIdle(t *testing.T, f *fixture) {
	ctx := t.Context()
	w, other := f.worker(), f.worker()
	for _, idle := range []bool{true, true, false, false, true} {
		require.NoError(t, f.Store.SetIdle(ctx, w.id, "q", idle))
		require.NoError(t, f.Store.SetIdle(ctx, other.id, `odd "queue"`, idle))
	}
	f.silence(w)
	_, err := f.Store.BuryWorkers(ctx)
	require.NoError(t, err)
	require.NoError(t, f.Store.Unregister(ctx, other.id))
	f.put(store.NewMessage{})
}
