package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/styxmq/styx/internal/store"
)

const (
	// dueWindow is how many of the due messages, by their time, are put in
	// the order of priority and id.
	dueWindow = 1000
	// dueSlack is how far behind the last look a due time can still appear,
	// since clocks are set back now and then.
	dueSlack = 2 * time.Minute
	// fullEvery is how often a cursor looks from the very beginning, for
	// what somebody has put there by hand; or fullShare times as long as
	// that takes.
	fullEvery = 30 * time.Second
	fullShare = 50
	// One claim in so many begins with the messages that never waited, and
	// one with the least urgent priority, so that none starves.
	readyEvery, fairEvery = 4, 8
)

// cursor claims from one queue and does not look twice at rows that it cannot
// claim, those of other kinds above all. That is exact: writers come one
// after the other, so ids become visible in their order, nothing is put back
// among the ready ones, and due times are never given in the past.
type cursor struct {
	s    *Store
	spec store.CursorSpec
	text claimTexts
	// No ready row up to the id base, nor of a priority up to the id in
	// passed, nor any with a due time up to dueBase is there to claim.
	base    int64
	passed  map[int64]int64
	dueBase int64
	looked  time.Time
	cost    time.Duration
	// more: the last batch was full, so the next claim finds something.
	more  bool
	turns int
	// remote claims for consumers without an incarnation, who hold a message
	// for the spec's Lease, or for its own timeout where that counts.
	remote, own bool
}

// Cursor returns the claimer of one queue.
func (s *Store) Cursor(spec store.CursorSpec) store.Cursor { return s.newCursor(spec) }

func (s *Store) newCursor(spec store.CursorSpec) *cursor {
	return &cursor{s: s, spec: spec, text: claimTextsOf(spec), passed: map[int64]int64{}}
}

// Wake does nothing: every claim sees all that has been committed.
func (c *cursor) Wake() {}

// Claim takes due messages first, then those that never waited. When the last
// batch was short it looks first, without the write lock.
func (c *cursor) Claim(ctx context.Context, r store.ClaimRequest) (batch store.Batch, err error) {
	if paused, err := c.s.paused(ctx, c.spec.Queue); err != nil || paused {
		return store.Batch{NextDue: store.PauseEvery}, err
	}
	if began := time.Now(); began.Sub(c.looked) >= max(fullEvery, fullShare*c.cost) {
		c.base, c.dueBase, c.looked = 0, 0, began
		clear(c.passed)
		defer func() { c.cost = time.Since(began) }()
	}
	if !c.more {
		found, next, err := c.look(ctx, r.Suspect)
		if err != nil || !found {
			return store.Batch{NextDue: next}, err
		}
	}
	var place position
	err = c.s.write(ctx, func(w *work) (err error) {
		batch, place, err = c.take(w, r)
		return err
	})
	if err != nil {
		return store.Batch{NextDue: -1}, fmt.Errorf("claim from queue %q: %w", c.spec.Queue, err)
	}
	c.more = batch.Again
	if place.known {
		c.seen(place.base, place.now)
		return batch, nil
	}
	for priority, id := range place.passed {
		c.passed[priority] = id
	}
	return batch, nil
}

// seen notes that nothing is left to claim up to an id and a time.
func (c *cursor) seen(id, now int64) {
	c.base, c.dueBase = id, now-dueSlack.Microseconds()
	clear(c.passed)
}

// position is how far a claim has come; it counts once that has committed.
type position struct {
	// known: everything was seen, up to an id and a time.
	known     bool
	base, now int64
	passed    map[int64]int64
	// cut: the due ones ended with the window.
	cut bool
}

// look reports whether there is something to claim, or how long it is until
// then.
func (c *cursor) look(ctx context.Context, suspect bool) (found bool, next time.Duration, err error) {
	args := []any{c.spec.Queue, c.spec.Queue, c.spec.Queue, c.dueBase}
	args = append(args, c.text.kinds...)
	args = append(args, suspect, c.spec.Queue)
	args = append(args, c.text.kinds...)
	args = append(args, c.spec.Queue, c.base)
	args = append(args, c.text.kinds...)
	args = append(args, c.spec.Queue, c.spec.Queue)
	var (
		last, now int64
		wait      sql.NullInt64
	)
	if err := c.s.row(ctx, []any{&found, &wait, &last, &now}, c.text.look, args...); err != nil {
		return false, -1, fmt.Errorf("look into queue %q: %w", c.spec.Queue, c.s.mapError(ctx, err))
	}
	if !found {
		c.seen(last, now)
	}
	return found, waitOf(wait), nil
}

func waitOf(micros sql.NullInt64) time.Duration {
	if !micros.Valid {
		return -1
	}
	return max(0, time.Duration(micros.Int64)*time.Microsecond)
}

func (c *cursor) take(w *work, r store.ClaimRequest) (batch store.Batch, place position, err error) {
	now, err := w.clock()
	if err != nil {
		return batch, place, err
	}
	if r.Suspect {
		got, err := c.pick(w, nil, c.text.suspect, append([]any{c.spec.Queue, now}, c.text.kinds...)...)
		if err != nil {
			return batch, place, err
		}
		if len(got) > 0 {
			batch = store.Batch{Messages: got, Again: true, NextDue: -1}
			return batch, place, c.hold(w, r.Number, now, got)
		}
	}
	c.turns++
	limit := max(r.Limit, 1)
	got := make([]store.Claimed, 0, min(limit, dueWindow))
	place.passed = map[int64]int64{}
	for _, source := range c.sources() {
		if len(got) < limit {
			if got, err = source(w, got, limit, now, &place); err != nil {
				return batch, place, err
			}
		}
	}
	batch = store.Batch{Messages: got, Again: len(got) == limit || place.cut, NextDue: -1}
	if !batch.Again {
		place.known, place.now = true, now
		if err := w.scan([]any{&place.base}, "SELECT "+lastID); err != nil {
			return batch, place, err
		}
		var wait sql.NullInt64
		if err := w.scan([]any{&wait}, nextDueText, c.spec.Queue, c.spec.Queue); err != nil {
			return batch, place, err
		}
		batch.NextDue = waitOf(wait)
	}
	if len(got) == 0 {
		return batch, place, nil
	}
	return batch, place, c.hold(w, r.Number, now, got)
}

// source adds messages of one sort, up to limit in all.
type source func(w *work, got []store.Claimed, limit int, now int64, place *position) ([]store.Claimed, error)

func (c *cursor) sources() []source {
	switch {
	case c.turns%fairEvery == 0:
		return []source{c.leastUrgent, c.due, c.ready}
	case c.turns%readyEvery == 0:
		return []source{c.ready, c.due}
	}
	return []source{c.due, c.ready}
}

func (c *cursor) due(w *work, got []store.Claimed, limit int, now int64, place *position) ([]store.Claimed, error) {
	had := len(got)
	args := append([]any{c.spec.Queue, c.dueBase, now}, c.text.kinds...)
	got, err := c.pick(w, got, c.text.due, append(args, limit-had)...)
	place.cut = len(got)-had == dueWindow
	return got, err
}

// ready goes from priority to priority.
func (c *cursor) ready(w *work, got []store.Claimed, limit int, _ int64, place *position) ([]store.Claimed, error) {
	for after := int64(-1 << 62); len(got) < limit; {
		var priority sql.NullInt64
		if err := w.scan([]any{&priority}, nextPriorityText, c.spec.Queue, after); err != nil || !priority.Valid {
			return got, err
		}
		after = priority.Int64
		var err error
		if got, err = c.readyOf(w, got, limit, after, place); err != nil {
			return got, err
		}
	}
	return got, nil
}

// leastUrgent serves the priority that the others keep from its turn.
func (c *cursor) leastUrgent(w *work, got []store.Claimed, limit int, _ int64, place *position) ([]store.Claimed, error) {
	var priority sql.NullInt64
	if err := w.scan([]any{&priority}, lastPriorityText, c.spec.Queue); err != nil || !priority.Valid {
		return got, err
	}
	return c.readyOf(w, got, limit, priority.Int64, place)
}

func (c *cursor) readyOf(w *work, got []store.Claimed, limit int, priority int64, place *position) ([]store.Claimed, error) {
	from := max(c.base, c.passed[priority], place.passed[priority])
	had := len(got)
	args := append([]any{c.spec.Queue, priority, from}, c.text.kinds...)
	got, err := c.pick(w, got, c.text.ready, append(args, limit-had)...)
	if err == nil && len(got) > had {
		place.passed[priority] = got[len(got)-1].ID
	}
	return got, err
}
