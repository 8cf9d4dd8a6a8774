package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// errFailure is what a handler returns for a message that is to fail once.
var errFailure = errors.New("fails once, as it should")

// tally counts what handlers see. It is safe for concurrent use.
type tally struct {
	counts   []atomic.Uint32 // successes of each message
	failing  bool            // whether a hundredth fail once
	latency  []int64         // nanoseconds from enqueue to start, where wanted
	expect   int64           // distinct successes until all is closed, 0 for never
	every    int64           // distinct successes from mark to mark, 0 for none
	distinct atomic.Int64
	failures atomic.Int64
	samples  atomic.Int64
	gate     <-chan struct{} // handlers wait for it; nil is open
	held     atomic.Bool     // one does
	last     atomic.Int64    // when the last was seen, in nanoseconds since 1970
	all      chan struct{}
	mu       sync.Mutex
	marks    []int64 // when each mark was reached
}

func newTally(size int, failing, latency bool, expect, every int) *tally {
	t := &tally{
		counts: make([]atomic.Uint32, size), failing: failing,
		expect: int64(expect), every: int64(every), all: make(chan struct{}),
	}
	if latency {
		t.latency = make([]int64, size)
	}
	return t
}

// handle is the body of every handler.
func (t *tally) handle(p payload, attempt int) error {
	if p.Num < 0 || p.Num >= len(t.counts) {
		return fmt.Errorf("message %d does not belong to this run", p.Num)
	}
	if t.gate != nil {
		t.held.Store(true)
		<-t.gate
	}
	now := time.Now().UnixNano()
	if t.latency != nil && attempt == 1 {
		if i := t.samples.Add(1) - 1; int(i) < len(t.latency) {
			t.latency[i] = now - p.At
		}
	}
	if t.failing && attempt == 1 && fails(p.Num) {
		t.failures.Add(1)
		return errFailure
	}
	if t.counts[p.Num].Add(1) > 1 {
		return nil // seen again, which the check will find
	}
	t.last.Store(now)
	n := t.distinct.Add(1)
	if t.every > 0 && n%t.every == 0 {
		t.mu.Lock()
		t.marks = append(t.marks, now)
		t.mu.Unlock()
	}
	if n == t.expect {
		close(t.all)
	}
	return nil
}

// latencies returns what has been measured; no handler may run any more.
func (t *tally) latencies() []int64 {
	return t.latency[:min(int(t.samples.Load()), len(t.latency))]
}

// save writes the counts, four bytes each.
func (t *tally) save(file string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("save the counts: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	var b [4]byte
	for i := range t.counts {
		binary.LittleEndian.PutUint32(b[:], t.counts[i].Load())
		if _, err := w.Write(b[:]); err != nil {
			return fmt.Errorf("save the counts: %w", err)
		}
	}
	return w.Flush()
}

// countsOf adds up what several workers have saved.
func countsOf(files []string, size int) ([]uint32, error) {
	sum := make([]uint32, size)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the counts: %w", err)
		}
		for i := range min(size, len(data)/4) {
			sum[i] += binary.LittleEndian.Uint32(data[4*i:])
		}
	}
	return sum, nil
}

// checkCounts requires that each of the messages in [0, want) has succeeded
// exactly once and no other has at all.
func checkCounts(counts []uint32, want int) error {
	var missing, repeated, foreign int
	first := -1
	for i, n := range counts {
		switch {
		case i < want && n == 0:
			missing++
		case i < want && n > 1:
			repeated++
		case i >= want && n > 0:
			foreign++
		default:
			continue
		}
		if first < 0 {
			first = i
		}
	}
	if missing+repeated+foreign > 0 || len(counts) < want {
		return fmt.Errorf("of %d messages %d were not worked, %d more than once, and %d that should not have been were; the first is %d",
			want, missing, repeated, foreign, first)
	}
	return nil
}

// checkAtMostOnce requires that none has succeeded twice, none from limit on
// at all, and that there were at least so many.
func checkAtMostOnce(counts []uint32, limit, least int) error {
	seen := 0
	for i, n := range counts {
		if n > 1 {
			return fmt.Errorf("message %d was worked %d times", i, n)
		}
		if n > 0 && i >= limit {
			return fmt.Errorf("message %d was worked and is not due", i)
		}
		seen += int(n)
	}
	if seen < least {
		return fmt.Errorf("%d messages were worked instead of %d", seen, least)
	}
	return nil
}
