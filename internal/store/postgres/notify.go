package postgres

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// notifyEvery bounds how often one client notifies: NOTIFY serialises
	// the commits of the whole database.
	notifyEvery = 5 * time.Millisecond
	// watchFor is how long an open transaction is watched; what commits
	// later is found by the workers' polls.
	watchFor = time.Minute
)

// notifier tells idle workers that messages have arrived, after they are
// committed and never inside a caller's transaction. Its goroutine lives
// while there is something to tell.
type notifier struct {
	s *Store

	mu      sync.Mutex
	running bool
	dirty   map[string]struct{}
	watched map[string]*watch // by transaction id
}

// watch is a transaction that has enqueued and may commit.
type watch struct {
	since  time.Time
	queues map[string]struct{}
}

func newNotifier(s *Store) *notifier {
	return &notifier{s: s, dirty: map[string]struct{}{}, watched: map[string]*watch{}}
}

// committed says that messages of the queue are visible now.
func (n *notifier) committed(ctx context.Context, queues ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, q := range queues {
		n.dirty[q] = struct{}{}
	}
	n.start(ctx)
}

// inside says that the transaction has messages for the queues.
func (n *notifier) inside(ctx context.Context, xid string, queues ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.watched[xid]
	if w == nil {
		w = &watch{since: time.Now(), queues: map[string]struct{}{}}
		n.watched[xid] = w
	}
	for _, q := range queues {
		w.queues[q] = struct{}{}
	}
	n.start(ctx)
}

func (n *notifier) start(ctx context.Context) {
	if !n.running {
		n.running = true
		go n.run(context.WithoutCancel(ctx))
	}
}

func (n *notifier) run(ctx context.Context) {
	for {
		n.mu.Lock()
		queues := slices.Collect(maps.Keys(n.dirty))
		clear(n.dirty)
		xids := slices.Collect(maps.Keys(n.watched))
		if len(queues) == 0 && len(xids) == 0 {
			n.running = false
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()

		if len(queues) > 0 {
			n.send(ctx, queues)
		}
		pause := notifyEvery
		if len(xids) > 0 {
			pause = n.check(ctx, xids)
		}
		time.Sleep(pause)
	}
}

// send notifies for those queues that a worker waits at. Its transaction holds
// nothing that must last, so its commit does not wait for the disk. An error
// is dropped: workers poll as well.
func (n *notifier) send(ctx context.Context, queues []string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, _ = n.s.sql.ExecContext(ctx, n.s.text(`SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, q) FROM unnest($2::text[]) AS q
	WHERE EXISTS (SELECT FROM {{s}}listeners l WHERE l.queue = q)`), n.s.channel(), textArrayOf(queues))
}

// check asks which watched transactions have ended and returns how long to
// wait before the next look: young ones are looked at often.
func (n *notifier) check(ctx context.Context, xids []string) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	status, err := n.ask(ctx, xids)

	n.mu.Lock()
	defer n.mu.Unlock()
	pause := 50 * time.Millisecond
	for _, xid := range xids {
		w := n.watched[xid]
		age := time.Since(w.since)
		st := status[xid]
		switch {
		case st == "committed" || st == "unknown":
			maps.Copy(n.dirty, w.queues)
			delete(n.watched, xid)
		case st == "aborted" || age > watchFor || err != nil:
			// An error may be a closed database: the polls find what is left.
			delete(n.watched, xid)
		case age < 100*time.Millisecond:
			pause = min(pause, 2*time.Millisecond)
		case age < time.Second:
			pause = min(pause, 10*time.Millisecond)
		}
	}
	if len(n.dirty) > 0 {
		pause = 0
	}
	return pause
}

// ask returns the status of each transaction that the server knows of.
func (n *notifier) ask(ctx context.Context, xids []string) (map[string]string, error) {
	rows, err := n.s.sql.QueryContext(ctx,
		`SELECT x, coalesce(pg_xact_status(x::xid8), 'unknown') FROM unnest($1::text[]) AS x`, textArrayOf(xids))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	status := map[string]string{}
	for rows.Next() {
		var xid, st string
		if err := rows.Scan(&xid, &st); err != nil {
			return nil, err
		}
		status[xid] = st
	}
	return status, rows.Err()
}
