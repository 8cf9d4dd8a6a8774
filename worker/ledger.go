package worker

import (
	"slices"
	"sync"
)

// ledger keeps the numbers of an incarnation's claims: which are being made,
// and how many messages of each are not settled yet. What it does not know
// and the database does is an orphan.
type ledger struct {
	mu     sync.Mutex
	last   int64
	open   map[int64]int // messages not settled; -1 while the claim runs
	settle []int64       // done with, row not deleted yet
	flight []int64       // their rows are being deleted
}

func newLedger() *ledger { return &ledger{open: map[int64]int{}} }

// begin draws the number of a claim.
func (l *ledger) begin() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.open[l.last] = -1
	return l.last
}

// claimed records what the claim returned. A claim that found nothing left no
// row.
func (l *ledger) claimed(number int64, messages int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if messages == 0 {
		delete(l.open, number)
		return
	}
	l.open[number] = messages
}

// failed forgets a claim whose reply was lost.
func (l *ledger) failed(number int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, number)
}

// settled counts messages as settled or given up.
func (l *ledger) settled(tasks []*task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(tasks) > 0 { // neighbours are mostly of one claim
		number, same := tasks[0].number, 1
		for same < len(tasks) && tasks[same].number == number {
			same++
		}
		tasks = tasks[same:]
		n, ok := l.open[number]
		switch {
		case !ok:
		case n > same:
			l.open[number] = n - same
		default:
			delete(l.open, number)
			l.settle = append(l.settle, number)
		}
	}
}

// done takes the numbers whose rows may be deleted, at least atLeast of them
// or none. They stay known until deleted or undone is told of them.
func (l *ledger) done(atLeast int) []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.settle) < atLeast {
		return nil
	}
	out := l.settle
	l.settle = nil
	l.flight = append(l.flight, out...)
	return out
}

// deleted forgets numbers whose rows are gone.
func (l *ledger) deleted(numbers []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.land(numbers)
}

// undone gives numbers back whose rows could not be deleted.
func (l *ledger) undone(numbers []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.land(numbers)
	l.settle = append(l.settle, numbers...)
}

func (l *ledger) land(numbers []int64) {
	if len(numbers) > 0 {
		l.flight = slices.DeleteFunc(l.flight, func(n int64) bool { return slices.Contains(numbers, n) })
	}
}

// known returns every number in use, settled ones too, and the newest.
func (l *ledger) known() (numbers []int64, upTo int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	numbers = make([]int64, 0, len(l.open)+len(l.settle))
	for n := range l.open {
		numbers = append(numbers, n)
	}
	return append(append(numbers, l.settle...), l.flight...), l.last
}
