package worker

import (
	"slices"
	"sync"
	"time"
)

const (
	// aheadFor is how much work a queue that may claim ahead of its free slots
	// does claim: so much as it gets done in this time.
	aheadFor = 50 * time.Millisecond
	// aheadBytes bounds the payloads that wait.
	aheadBytes = 8 << 20
	// aheadAge is how long a message waits for a slot, at most: then the
	// handlers are not as quick as they were, and others may have it.
	aheadAge = time.Second
)

// line lets so many handlers of a queue run at once; what was claimed ahead
// waits in it.
type line struct {
	size int
	most int // claimed ahead

	mu      sync.Mutex
	running int
	waiting []*task // from head on
	head    int

	// How quick the handlers are: how many ended in the time in which any
	// ran.
	ended   int
	worked  time.Duration
	since   time.Time // when the first of those that run began
	pace    float64   // a second
	paced   time.Time // when that was found
	payload int       // bytes of a message
}

func newLine(size, most int) *line { return &line{size: size, most: most} }

// enter puts tasks at the end and returns those whose turn it is.
func (l *line) enter(tasks []*task, now time.Time) []*task {
	if len(tasks) == 0 {
		return nil
	}
	bytes := 0
	for _, t := range tasks {
		bytes += len(t.m.Payload)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.payload = bytes / len(tasks)
	n := 0
	if l.head == len(l.waiting) {
		n = max(0, min(len(tasks), l.size-l.running))
	}
	if n > 0 && l.running == 0 {
		l.since = now
	}
	l.running += n
	if n < len(tasks) {
		l.compact()
		l.waiting = append(l.waiting, tasks[n:]...)
	}
	for _, t := range tasks[:n] {
		t.turn = true
	}
	return tasks[:n]
}

// compact makes room. l.mu is held.
func (l *line) compact() {
	n := copy(l.waiting, l.waiting[l.head:])
	clear(l.waiting[n:])
	l.waiting, l.head = l.waiting[:n], 0
}

// leave ends a turn and returns the task whose turn it is instead, if any.
func (l *line) leave() *task {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
	if l.head < len(l.waiting) {
		t := l.waiting[l.head]
		l.waiting[l.head] = nil
		l.head++
		t.turn = true
		return t
	}
	l.running--
	if l.running == 0 {
		l.worked += time.Since(l.since)
	}
	return nil
}

// quit takes tasks that meet the condition out of the line.
func (l *line) quit(leaves func(t *task) bool) []*task {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.compact()
	var out []*task
	l.waiting = slices.DeleteFunc(l.waiting, func(t *task) bool {
		gone := leaves(t)
		if gone {
			out = append(out, t)
		}
		return gone
	})
	return out
}

// ahead is how many messages are worth claiming beyond the free slots.
func (l *line) ahead() int {
	most := l.most
	if most == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	switch {
	case l.ended >= l.size:
		if l.running > 0 {
			l.worked += now.Sub(l.since)
			l.since = now
		}
		l.pace, l.paced = float64(l.ended)/max(l.worked, time.Microsecond).Seconds(), now
		l.ended, l.worked = 0, 0
	case now.Sub(l.paced) > aheadAge:
		l.pace = 0
	}
	if l.payload > 0 {
		most = min(most, aheadBytes/l.payload)
	}
	return max(0, int(min(l.pace*aheadFor.Seconds(), float64(most+l.size)))-l.size)
}
