package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"
)

// childArgument makes this binary a child.
const childArgument = "child"

// reportEvery is how often a child tells how far it is.
// Many of them do it less often, since it costs them and the parent time.
const (
	reportEvery = 20 * time.Millisecond
	maxReport   = 2 * time.Second
)

// childMain does one task: it reads it, says that it is ready, does it when it
// is told to go, and prints the result. When its input ends it stops.
func childMain(ctx context.Context, in io.Reader, out io.Writer) int {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	words := json.NewEncoder(out)
	res, err := runChild(ctx, lines, words)
	if err != nil {
		res.Error = err.Error()
	}
	if words.Encode(word{Result: &res}) != nil || err != nil {
		return 1
	}
	return 0
}

func runChild(ctx context.Context, lines *bufio.Scanner, words *json.Encoder) (res result, err error) {
	if !lines.Scan() {
		return res, errors.New("told nothing to do")
	}
	var t task
	if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
		return res, fmt.Errorf("read the task: %w", err)
	}
	if t.Work != nil && t.Work.Procs > 0 {
		runtime.GOMAXPROCS(t.Work.Procs)
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	e, err := lookUp(t.System)
	if err != nil {
		return res, err
	}
	s, err := e.open(ctx, t.Place, t.Conns)
	if err != nil {
		return res, fmt.Errorf("open %s: %w", t.System, err)
	}
	noise() // made before anything is measured
	if err := words.Encode(word{Ready: true}); err != nil {
		return res, err
	}
	if !lines.Scan() || lines.Text() != tellGo {
		return res, errors.New("never told to go")
	}
	stopped, opened := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for lines.Scan() && lines.Text() == tellOpen {
			close(opened)
		}
		// stop, or the end of the parent
		if t.Work == nil {
			cancel()
		}
	}()
	return do(ctx, s, t, stopped, opened, words)
}

// do does the task and measures the process meanwhile.
func do(ctx context.Context, s system, t task, stopped, opened <-chan struct{}, words *json.Encoder) (res result, err error) {
	cpu := ownCPU()
	res.Began = time.Now().UnixNano()
	switch {
	case t.Work == nil && t.Enqueue != nil:
		err = enqueueAll(ctx, s, *t.Enqueue, nil, &res)
	case t.Work != nil:
		err = workAll(ctx, s, t, stopped, opened, words, &res)
	default:
		err = errors.New("neither enqueue nor work")
	}
	res.CPU, res.RSS = ownCPU()-cpu, peakRSS()
	return res, err
}

// workAll works, and enqueues beside it where that is asked for.
func workAll(ctx context.Context, s system, t task, stopped, opened <-chan struct{}, words *json.Encoder, res *result) (err error) {
	w := t.Work
	seen := newTally(w.Size, w.Failing, w.Latency, w.Expect, w.Every)
	if w.Gate {
		seen.gate = opened
	}
	start := time.Now()
	stop, err := s.work(ctx, crew{
		queues: queueNames(w.Queues), concurrency: w.Concurrency, crowd: w.Crowd, maintain: w.Maintain, handle: seen.handle,
	})
	if err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	told, hush := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() { tellProgress(told, seen, words, cmp.Or(w.Report, reportEvery)) })
	if t.Enqueue != nil {
		err = enqueueBeside(ctx, s, *t.Enqueue, seen, res)
	} else {
		select {
		case <-seen.all:
		case <-stopped:
		case <-ctx.Done():
			err = fmt.Errorf("worked %d messages: %w", seen.distinct.Load(), ctx.Err())
		}
	}
	hush()
	telling.Wait()
	recorded, stopErr := stop(ctx)
	err = errors.Join(err, stopErr)
	res.WorkTook = recorded.Sub(start)
	res.Worked, res.Failed, res.Last = int(seen.distinct.Load()), int(seen.failures.Load()), seen.last.Load()
	res.Marks = seen.marks
	if w.Latency {
		res.setLatencies(seen.latencies())
	}
	if w.File != "" {
		err = errors.Join(err, seen.save(w.File))
	}
	return err
}

func tellProgress(ctx context.Context, seen *tally, words *json.Encoder, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	held := false
	for last := int64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !held && seen.held.Load() {
			held = true
			if words.Encode(word{Held: true}) != nil {
				return
			}
		}
		if n := seen.distinct.Load(); n != last {
			last = n
			if words.Encode(word{Worked: int(n)}) != nil {
				return
			}
		}
	}
}
