package store

import (
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// idleCursor is how long a cursor is kept that nobody uses.
	idleCursor = time.Minute
	// cursorSweep is how often the idle ones are looked for.
	cursorSweep = 10 * time.Second
	// idleCursors bounds them all, whatever names are asked for.
	idleCursors = 4096
)

// CursorPool lends cursors to claims without an incarnation: as many for a
// queue as there are claims at once, each to one claim at a time, so that what
// a cursor has learnt of its queue serves the next claim. The zero value is
// ready; it is safe for concurrent use.
type CursorPool[C any] struct {
	mu    sync.Mutex
	idle  map[string][]idling[C] // the last used stands last
	more  map[string]time.Time   // by queue
	count int
	swept time.Time
}

type idling[C any] struct {
	cursor C
	since  time.Time
}

// CursorKey names what a cursor claims.
func CursorKey(queue string, kinds []string) string {
	kinds = slices.Clone(kinds)
	slices.Sort(kinds)
	// No name holds a control character.
	return queue + "\x00" + strings.Join(slices.Compact(kinds), "\x00")
}

func queueOf(key string) string {
	queue, _, _ := strings.Cut(key, "\x00")
	return queue
}

// Borrow returns a cursor of that name, one that make makes if none is idle.
// more reports that a claim from the queue, a moment ago, left more behind.
func (p *CursorPool[C]) Borrow(key string, build func() C) (cursor C, more bool) {
	const moment = 100 * time.Millisecond
	p.mu.Lock()
	if at, ok := p.more[queueOf(key)]; ok {
		more = time.Since(at) < moment
	}
	list := p.idle[key]
	if len(list) == 0 {
		p.mu.Unlock()
		return build(), more
	}
	defer p.mu.Unlock()
	last := len(list) - 1
	cursor = list[last].cursor
	list[last] = idling[C]{}
	p.idle[key] = list[:last]
	p.count--
	return cursor, more
}

// Return gives a cursor back. more says that the claim left more behind.
func (p *CursorPool[C]) Return(key string, cursor C, more bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil {
		p.idle, p.more, p.swept = map[string][]idling[C]{}, map[string]time.Time{}, now
	}
	if now.Sub(p.swept) >= cursorSweep {
		p.sweep(now)
	}
	if more {
		p.more[queueOf(key)] = now
	} else {
		delete(p.more, queueOf(key))
	}
	if p.count < idleCursors {
		p.idle[key] = append(p.idle[key], idling[C]{cursor, now})
		p.count++
	}
}

// Look makes the next claim from the queue look at all of it, since something
// went back.
func (p *CursorPool[C]) Look(queue string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.more, queue)
}

func (p *CursorPool[C]) sweep(now time.Time) {
	p.swept = now
	for key, list := range p.idle {
		kept := slices.IndexFunc(list, func(i idling[C]) bool { return now.Sub(i.since) < idleCursor })
		if kept < 0 {
			kept = len(list)
		}
		p.count -= kept
		if kept == len(list) {
			delete(p.idle, key)
			continue
		}
		p.idle[key] = slices.Clone(list[kept:])
	}
	for key, at := range p.more {
		if now.Sub(at) >= idleCursor {
			delete(p.more, key)
		}
	}
}
