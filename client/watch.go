package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/styxmq/styx/internal/store"
)

const (
	// Waiting begins with polls, since many a wait is short; the pause between
	// them doubles from the first to pollAlone, or to pollBeside when there
	// are notifications as well.
	pollFirst  = 10 * time.Millisecond
	pollAlone  = 250 * time.Millisecond
	pollBeside = time.Second
	// listenAfter is when a connection is taken to be notified on.
	listenAfter = 150 * time.Millisecond
	// relisten is the pause after a connection was lost.
	relisten = time.Second
	// Producers are told of a waited-at queue again every tellEvery, and that
	// nobody waits there any more after untellAfter: to tell costs a write.
	tellEvery, untellAfter = 20 * time.Second, 5 * time.Second
	// farewell bounds the last of it, when the watch ends.
	farewell = time.Second
)

// watch wakes waiting claims: one of each crowd now and then, and a few
// when the database says that messages have arrived.
type watch struct {
	ws        *waits
	st        store.Store
	quit      context.CancelFunc
	ended     chan struct{}
	joined    chan struct{} // holds one
	listening atomic.Bool
	// told are the queues that producers know of, and when they were told or
	// last waited at.
	told map[string]*telling
}

type telling struct{ told, waited time.Time }

// startWatch begins a watch that goes on after ctx, until stop.
func startWatch(ctx context.Context, ws *waits, st store.Store) *watch {
	ctx, quit := context.WithCancel(context.WithoutCancel(ctx))
	w := &watch{
		ws: ws, st: st, quit: quit, ended: make(chan struct{}), joined: make(chan struct{}, 1), told: map[string]*telling{},
	}
	go w.run(ctx)
	return w
}

// look says that a queue may be new.
func (w *watch) look() {
	select {
	case w.joined <- struct{}{}:
	default:
	}
}

func (w *watch) stop() {
	w.quit()
	<-w.ended
}

func (w *watch) run(ctx context.Context) {
	defer close(w.ended)
	var wg sync.WaitGroup
	defer w.leave(ctx)
	defer wg.Wait()
	pause := pollFirst
	poll, listen := time.NewTimer(pause), time.NewTimer(listenAfter)
	defer poll.Stop()
	defer listen.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-listen.C:
			wg.Go(func() { w.listen(ctx) })
		case <-w.joined:
		case <-poll.C:
			w.ws.wake("", 1)
			most := pollAlone
			if w.listening.Load() {
				most = pollBeside
			}
			pause = min(2*pause, most)
			poll.Reset(pause)
		}
		if w.listening.Load() {
			w.tell(ctx)
		}
	}
}

// listen passes notifications on for as long as the store can.
func (w *watch) listen(ctx context.Context) {
	for ctx.Err() == nil {
		w.listening.Store(true)
		w.look()
		err := w.st.Listen(ctx, func(queue string) { w.ws.wake(queue, wakeFew) })
		w.listening.Store(false)
		if errors.Is(err, store.ErrNoListen) {
			return
		}
		timer := time.NewTimer(relisten)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// tell lets producers know which queues are waited at. What came before a
// queue was told, a claim must find by itself. An error leaves it to the
// polls.
func (w *watch) tell(ctx context.Context) {
	now, waited := time.Now(), w.ws.queues()
	for queue := range waited {
		t := w.told[queue]
		if t == nil || now.Sub(t.told) >= tellEvery {
			if w.st.SetIdle(ctx, store.RemoteWorker, queue, true) != nil {
				continue
			}
			if t == nil {
				t = new(telling)
				w.told[queue] = t
				w.ws.wake(queue, 1)
			}
			t.told = now
		}
		t.waited = now
	}
	for queue, t := range w.told {
		if now.Sub(t.waited) < untellAfter {
			continue
		}
		if w.st.SetIdle(ctx, store.RemoteWorker, queue, false) == nil {
			delete(w.told, queue)
		}
	}
}

// leave takes back what producers were told.
func (w *watch) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	for queue := range w.told {
		if w.st.SetIdle(ctx, store.RemoteWorker, queue, false) != nil {
			return // it lapses
		}
	}
}
