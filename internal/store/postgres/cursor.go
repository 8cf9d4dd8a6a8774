package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// How often a busy cursor looks around.
const (
	// probeEvery and probeClaims bound how long due messages and other
	// priorities wait behind a long run of full batches: the longer of the
	// two, but no longer than hardEvery.
	probeEvery  = 100 * time.Millisecond
	probeClaims = 4
	// hardEvery is how often a claim begins at the hard floor, for rows
	// that committed behind the soft one.
	hardEvery = time.Second
	// A scan from zero finds what the hard floor might have passed (a row
	// that was locked by a claim which then failed). It runs at the start
	// and then every fullEvery, or fullShare times its own cost.
	fullEvery = 30 * time.Second
	fullShare = 50
	// One of those who claim the same does so for all; the others do it
	// fullOthers times less often.
	fullOthers = 10
	// slowProbe is when priorities that were never seen in use are probed one
	// by one, each from its floor: many others may have passed through there.
	// A claim that took longer shows that everything is slow.
	slowProbe = 5 * time.Millisecond
	// dueLag keeps the hard floor of the due ones this far back, for clocks
	// that are set and for rows that are edited by hand.
	dueLag = 5 * time.Second
	// fairEvery gives one ready claim in so many to the least urgent
	// priority, so that none starves.
	fairEvery = 8
)

// cursor claims from one queue. It walks the ready index forward from a
// floor, since rows are never put back behind its end, and keeps three
// positions for each priority (see floor).
type cursor struct {
	s       *Store
	spec    store.CursorSpec
	kinds   sql.NullString
	scope   int64 // of its most urgent priority
	floors  [priorities]floor[int64]
	held    [priorities]bool // rows were seen there at some time
	used    [priorities]bool // it is probed by itself
	due     floor[time.Time]
	wake    bool
	turn    int
	seen    probed
	nextDue time.Time // local time; zero when nothing is postponed
	// what is left to ask in this round
	askDue, askSuspect bool
	askReady           []int
	lastProbe          time.Time
	lastHard, lastFull time.Time
	fullCost           time.Duration
	claimCost          time.Duration
	behind             bool // another one makes the full scans
	claims             int
	unprobed           int // claims since the last probe
	hardEvery          time.Duration
	// remote claims for consumers without an incarnation, who hold a message
	// for the spec's Lease; own is 1 where the message's timeout counts
	// instead.
	remote bool
	own    int64
}

// Cursor returns the claimer of one queue.
func (s *Store) Cursor(spec store.CursorSpec) store.Cursor { return s.newCursor(spec) }

func (s *Store) newCursor(spec store.CursorSpec) *cursor {
	c := &cursor{s: s, spec: spec, wake: true}
	c.scope = scopeOf(spec.Queue, spec.Kinds)
	// Many cursors that began together should not stay together.
	c.hardEvery = hardEvery - rand.N(hardEvery/4) //nolint:gosec // no secret
	if len(spec.Kinds) > 0 {
		c.kinds = sql.NullString{String: textArrayOf(spec.Kinds), Valid: true}
	}
	return c
}

// scopeOf is the scope of the most urgent priority of a queue, for those who
// claim the same kinds; those of the other priorities follow. Claims with the
// same scope take the same messages. Two that share one by chance find what the
// other makes them pass over when they next begin at the hard floor.
func scopeOf(queue string, kinds []string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(store.CursorKey(queue, kinds)))
	return int64(h.Sum64()>>1&^63) + 1 //nolint:gosec // one bit less
}

// Wake makes the next Claim probe and begin at the hard floors.
func (c *cursor) Wake() { c.wake = true }

// Claim runs the probe when one is due and then at most one claim.
func (c *cursor) Claim(ctx context.Context, r store.ClaimRequest) (store.Batch, error) {
	if paused, err := c.s.paused(ctx, c.spec.Queue); err != nil || paused {
		return store.Batch{NextDue: store.PauseEvery}, err
	}
	if lane := c.only(); r.Announced && r.Limit > 1 && lane >= 0 {
		got, err := c.take(ctx, sourceReady, lane, r)
		if err != nil || len(got.messages) > 0 {
			return store.Batch{Messages: inOrder(got.messages), Again: true, NextDue: c.untilDue()}, err
		}
	}
	now := time.Now()
	since := now.Sub(c.lastProbe)
	if c.wake || since >= probeEvery && c.unprobed >= probeClaims || since >= c.hardEvery || !c.nextDue.IsZero() && !now.Before(c.nextDue) {
		if c.lastProbe.IsZero() {
			if err := c.draw(ctx); err != nil {
				return store.Batch{NextDue: -1}, err
			}
		}
		if err := c.probe(ctx, now); err != nil {
			return store.Batch{NextDue: -1}, err
		}
		if c.remote {
			c.turn = 0 // one at a time, and what comes back is the older
		}
	}
	src, lane := c.choose(r.Suspect)
	if src < 0 {
		return store.Batch{NextDue: c.untilDue()}, nil
	}
	got, err := c.take(ctx, src, lane, r)
	if err != nil {
		return store.Batch{NextDue: -1}, err
	}
	return store.Batch{
		Messages: inOrder(got.messages),
		Again:    c.askDue || c.askSuspect && r.Suspect && src != sourceSuspect || len(c.askReady) > 0 || c.wake,
		NextDue:  c.untilDue(),
	}, nil
}

// only is the priority of a queue that uses one alone, as far as is known: there
// a message that has just arrived is looked for without a probe. Else it is
// negative.
func (c *cursor) only() int {
	lane := slices.Index(c.held[:], true)
	if lane < 0 || slices.Contains(c.held[lane+1:], true) || c.floors[lane].pos == nil {
		return -1
	}
	return lane
}

// take makes a claim and moves the floors. When it was not its turn, others
// are ahead, and the next round looks where they have come.
func (c *cursor) take(ctx context.Context, src source, lane int, r store.ClaimRequest) (taken, error) {
	limit := min(max(r.Limit, 1), claimRows)
	if src == sourceSuspect {
		limit = 1
	}
	began := time.Now()
	got, err := c.claim(ctx, src, lane, limit, r.Number)
	c.claimCost = time.Since(began)
	if err != nil {
		c.wake = true
		if errors.Is(err, errNoTurn) {
			err = nil
		}
		return taken{}, err
	}
	c.unprobed++
	if src == sourceReady && len(got.messages) > 0 {
		c.claims++
	}
	c.settle(src, lane, got.messages, got.full)
	return got, nil
}

// inOrder returns messages in their order, in which they mostly are.
func inOrder(ms []store.Claimed) []store.Claimed {
	order := func(a, b *store.Claimed) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID))
	}
	sorted := true
	for i := 1; i < len(ms) && sorted; i++ {
		sorted = order(&ms[i-1], &ms[i]) <= 0
	}
	if sorted {
		return ms
	}
	// Pointers move while it sorts, since messages are large.
	index := make([]*store.Claimed, len(ms))
	for i := range ms {
		index[i] = &ms[i]
	}
	slices.SortFunc(index, order)
	out := make([]store.Claimed, len(ms))
	for i, m := range index {
		out[i] = *m
	}
	return out
}

func (c *cursor) untilDue() time.Duration {
	if c.nextDue.IsZero() {
		return -1
	}
	return max(0, time.Until(c.nextDue))
}

// draw gives every floor its first candidate, so that the first scan, which
// may be long, is one that the hard floors can follow.
func (c *cursor) draw(ctx context.Context) error {
	p, err := c.s.draws.do(ctx, struct{}{}, func() (probed, error) { return c.s.draw(ctx) })
	if err != nil {
		return err
	}
	for i := range c.floors {
		c.floors[i].observe(0, p.xid, p.lastID, false)
	}
	c.due.observe(0, p.xid, p.now.Add(-dueLag), false)
	c.seen = p
	return nil
}

// probe begins a round: it learns what the queue holds and sets the floors
// that the round begins at.
func (c *cursor) probe(ctx context.Context, now time.Time) error {
	hard := c.wake || now.Sub(c.lastHard) >= c.hardEvery
	every := max(fullEvery, fullShare*c.fullCost)
	if c.behind {
		every *= fullOthers
	}
	full := hard && now.Sub(c.lastFull) >= every
	q := question{queue: c.spec.Queue, worker: c.spec.WorkerID, kinds: c.kinds}
	if full {
		clear(c.used[:])
	}
	q.runs = c.runs(hard, full)
	q.dueFrom = c.due.begin(hard, full)
	q.draw = c.due.xid == 0 || slices.ContainsFunc(c.floors[:], func(f floor[int64]) bool { return f.xid == 0 })
	a, err := c.s.probe(ctx, &q)
	if err != nil {
		return err
	}
	p := a.probed
	before := c.seen
	if p.now.Before(before.now) {
		// The server's clock was put back: what comes due from now on stands
		// below the floor.
		c.due, c.seen, c.wake = floor[time.Time]{}, probed{}, true
		return c.probe(ctx, now)
	}
	c.seen, c.wake = p, false
	c.lastProbe, c.unprobed = now, 0
	if hard {
		c.lastHard = now
	}
	if full {
		c.lastFull, c.fullCost = now, time.Since(now)
	} else {
		c.behind = a.behind
	}
	for i := range c.floors {
		c.floors[i].observe(p.xmin, p.xid, p.lastID, hard)
	}
	c.due.observe(p.xmin, p.xid, p.now.Add(-dueLag), hard)

	c.nextDue = time.Time{}
	c.askDue, c.askSuspect = false, false
	later := func(micros sql.NullInt64) (ripe bool) {
		if !micros.Valid {
			return false
		}
		if micros.Int64 <= 0 {
			return true
		}
		at := time.Now().Add(time.Duration(micros.Int64) * time.Microsecond)
		if c.nextDue.IsZero() || at.Before(c.nextDue) {
			c.nextDue = at
		}
		return false
	}
	c.askDue = later(a.due)
	c.askSuspect = later(a.suspects)
	if err := c.found(&q, a.active); err != nil {
		return err
	}
	for _, r := range q.runs {
		for i := r.from; i <= r.to && !slices.Contains(c.askReady, i); i++ {
			// The probe looked from the floor on and found nothing.
			c.floors[i].exhausted(before.lastID, compareID)
		}
	}
	if a.took > max(slowProbe, c.claimCost) {
		for i := range c.used {
			c.used[i] = true
		}
	}
	if !c.askDue {
		c.due.exhausted(before.now, time.Time.Compare)
	}
	return nil
}

// runs returns what a round asks for, and sets the floors to where it begins.
func (c *cursor) runs(hard, full bool) []laneRun {
	runs := make([]laneRun, 0, 5)
	for i := range c.floors {
		at := c.floors[i].begin(hard, full)
		last := len(runs) - 1
		switch {
		case c.used[i]:
			runs = append(runs, laneRun{i, i, at, c.scopeAt(i)})
		case last >= 0 && !c.used[runs[last].to]:
			runs[last].to = i
		default:
			runs = append(runs, laneRun{i, i, 0, 0})
		}
	}
	return runs
}

// found takes the priorities of a round. Where the first row of several
// unused ones was found, the others are not known yet: the next claim asks
// for them.
func (c *cursor) found(q *question, active string) error {
	c.askReady = c.askReady[:0]
	for text := range strings.SplitSeq(active, ",") {
		priority, first, ok := strings.Cut(text, ":")
		if !ok {
			continue
		}
		p, err := strconv.Atoi(priority)
		if err != nil {
			return fmt.Errorf("read the priorities of queue %q: %w", c.spec.Queue, err)
		}
		id, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return fmt.Errorf("read the priorities of queue %q: %w", c.spec.Queue, err)
		}
		lane := p - message.MinPriority
		c.askReady = append(c.askReady, lane)
		// The probe has walked up to here; the claim need not do it again.
		from := id - 1
		c.floors[lane].pos = &from
		c.used[lane], c.held[lane] = true, true
		c.wake = c.wake || slices.ContainsFunc(q.runs, func(r laneRun) bool { return r.from <= lane && lane < r.to })
	}
	return nil
}

// choose picks the next source of the round: due and ready ones in turn,
// priorities in their order but for every fairEvery-th time.
func (c *cursor) choose(suspect bool) (source, int) {
	c.turn++
	switch {
	case c.askSuspect && suspect:
		c.askSuspect = false
		return sourceSuspect, 0
	case c.askDue && (len(c.askReady) == 0 || c.turn%2 == 1):
		return sourceDue, 0
	case len(c.askReady) > 0:
		if c.claims%fairEvery == fairEvery-1 {
			return sourceReady, c.askReady[len(c.askReady)-1]
		}
		return sourceReady, c.askReady[0]
	}
	return -1, 0
}

// settle moves the floors after a claim.
func (c *cursor) settle(src source, lane int, got []store.Claimed, full bool) {
	switch src {
	case sourceSuspect:
	case sourceDue:
		if full {
			last := got[0].RetryAfter
			for i := range got {
				if got[i].RetryAfter.After(last) {
					last = got[i].RetryAfter
				}
			}
			c.due.advanced(last, time.Time.Compare)
			return
		}
		c.askDue = false
		c.nextDue = time.Now() // what comes next is for a probe to say
		c.due.exhausted(c.seen.now, time.Time.Compare)
	default:
		f := &c.floors[lane]
		if full {
			last := got[0].ID
			for i := range got {
				last = max(last, got[i].ID)
			}
			f.advanced(last, compareID)
			return
		}
		c.askReady = slices.DeleteFunc(c.askReady, func(i int) bool { return i == lane })
		f.exhausted(c.seen.lastID, compareID)
	}
}

func compareID(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
