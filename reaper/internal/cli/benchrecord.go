package cli

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// benchRecord notes which messages the handlers see. Handlers share nothing
// but a counter.
type benchRecord struct {
	expected int
	enqueued []int64
	stored   atomic.Int64
	ids      []int64
	seen     atomic.Int64
	all      chan struct{} // closed when as many as expected were seen
}

func newBenchRecord(expected int) *benchRecord {
	return &benchRecord{
		expected: expected,
		enqueued: make([]int64, expected),
		ids:      make([]int64, expected+expected/10+1000), // some room for what is seen twice
		all:      make(chan struct{}),
	}
}

// see notes an id.
func (r *benchRecord) see(id int64) {
	n := r.seen.Add(1)
	if int(n) <= len(r.ids) {
		r.ids[n-1] = id
	}
	if int(n) == r.expected {
		close(r.all)
	}
}

func (r *benchRecord) complete() bool { return int(r.seen.Load()) >= r.expected }

// handled returns the ids seen, in order, and how many were seen more often
// than once. The handlers must have ended.
func (r *benchRecord) handled() (ids []int64, duplicates int) {
	n := int(r.seen.Load())
	ids = slices.Clone(r.ids[:min(n, len(r.ids))])
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return ids, n - len(ids)
}

// benchCheck compares what the handlers saw with the archive.
type benchCheck struct {
	// Checked reports that every message enqueued was seen by exactly one
	// handler, once, and is in the archive.
	Checked bool `json:"checked"`
	// Duplicates were seen more often than once. Missing were enqueued, and
	// no handler saw them or they are not in the archive.
	Duplicates int `json:"duplicates"`
	Missing    int `json:"missing"`
	// Strange are in the archive or were seen, but never enqueued.
	Strange int `json:"strange"`
}

func (c *benchCheck) merge(d benchCheck) {
	c.Checked = c.Checked && d.Checked
	c.Duplicates += d.Duplicates
	c.Missing += d.Missing
	c.Strange += d.Strange
}

// check compares the ids one by one.
func (b *bench) check(ctx context.Context, rec *benchRecord) (benchCheck, error) {
	enqueued := slices.Clone(rec.enqueued)
	slices.Sort(enqueued)
	archived, err := b.db.succeeded(ctx, b.queue, enqueued[0], enqueued[len(enqueued)-1])
	if err != nil {
		return benchCheck{}, err
	}
	handled, duplicates := rec.handled()
	c := compare(enqueued, handled, archived)
	c.Duplicates = duplicates
	c.Checked = c == benchCheck{}
	return c, nil
}

// compare walks three ascending lists side by side.
func compare(enqueued, handled, archived []int64) (c benchCheck) {
	take := func(list *[]int64, id int64) bool {
		for len(*list) > 0 && (*list)[0] < id {
			c.Strange++
			*list = (*list)[1:]
		}
		if len(*list) == 0 || (*list)[0] != id {
			return false
		}
		*list = (*list)[1:]
		return true
	}
	for _, id := range enqueued {
		ran, kept := take(&handled, id), take(&archived, id)
		if !ran || !kept {
			c.Missing++
		}
	}
	c.Strange += len(handled) + len(archived)
	return c
}

// benchPayloads makes payloads of one size that all differ. The filler is
// random, so that it does not compress.
type benchPayloads struct {
	size   int
	filler string
}

// benchStride is prime, so that fillers repeat late.
const benchStride = 31

func newBenchPayloads(size int) *benchPayloads {
	var text strings.Builder
	for text.Len() < size+64<<10 {
		text.WriteString(rand.Text())
	}
	return &benchPayloads{size, text.String()}
}

// make returns the payload with the number n: at least large enough for the
// number.
func (p *benchPayloads) make(n int) benchPayload {
	const frame = len(`{"n":,"text":""}`)
	size := max(0, p.size-frame-len(strconv.Itoa(n)))
	at := n * benchStride % (len(p.filler) - size)
	return benchPayload{n, p.filler[at : at+size]}
}
