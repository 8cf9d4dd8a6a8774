package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
)

const (
	processConns = 4
	processLook  = 20 * time.Millisecond
	// processMark is from how many messages to how many a process notes the
	// time.
	processMark = 10
	// processWarm is what each process works before the time begins, in
	// thousandths of what is timed: 15,000 of 200,000. A claim takes a thousand,
	// a process claims and settles on three connections in turn, and on each the
	// server plans a statement anew five times before it keeps the plan.
	processWarm = 75
)

// processWarmUp is how many messages k processes work before n are timed, at
// least as many.
func processWarmUp(k, n int) int { return max(n, processWarm*k*n/1000) }

func processRate(k int) string { return fmt.Sprintf("drain/s, processes: %d", k) }

func processIdle(k int) string { return fmt.Sprintf("connections of an idle process, of %d", k) }

// processes spreads the handlers over worker processes.
func processes(ctx context.Context, r *run) error {
	for i, k := range r.h.processes {
		if i > 0 {
			if err := r.begin(ctx); err != nil {
				return err
			}
		}
		if err := r.spread(ctx, k); err != nil {
			return fmt.Errorf("with %d processes: %w", k, err)
		}
	}
	return nil
}

func (r *run) spread(ctx context.Context, k int) error {
	if db, ok := r.stage.(*database); ok {
		idle, err := r.idle(ctx, db, k)
		if err != nil {
			return err
		}
		r.add(processIdle(k), idle, plain)
	}
	// So many processes take seconds to open their connections and to make
	// their plans, one after the other, and more until they have all the memory
	// that they need.
	warm := processWarmUp(k, r.messages())
	n := warm + r.messages()
	if _, err := r.fill(ctx, enqueueTask{Count: n}); err != nil {
		return err
	}
	if err := r.stage.rest(ctx); err != nil {
		return err
	}
	r.files = nil // those that were idle have counted nothing
	ctx, cancel := context.WithTimeout(ctx, r.h.timeout)
	defer cancel()
	workers, err := r.startWorkers(ctx, k, n, n >= r.entry.concurrency)
	if err == nil {
		err = tellAll(workers, tellGo)
	}
	if err == nil && n >= r.entry.concurrency { // there are messages for all of them
		err = open(ctx, workers)
	}
	for err == nil && workedBy(workers) < n {
		err = errors.Join(wait(ctx, processLook), ended(workers))
	}
	last := int64(0)
	var marks []int64
	for _, p := range workers {
		res, e := p.stop()
		err = errors.Join(err, e)
		last, marks = max(last, res.Last), append(marks, res.Marks...)
	}
	if err != nil {
		return err
	}
	if err := r.check(ctx, n, n); err != nil {
		return err
	}
	slices.Sort(marks)
	began := warm/processMark - 1
	if began >= len(marks) {
		return fmt.Errorf("%d marks of %d messages: too few for %d processes", len(marks), n, k)
	}
	r.rate(processRate(k), n-warm, time.Duration(last-marks[began]))
	return nil
}

// idle returns how many connections an idle worker process holds.
func (r *run) idle(ctx context.Context, db *database, k int) (float64, error) {
	workers, err := r.startWorkers(ctx, k, 1, false)
	if err == nil {
		err = tellAll(workers, tellGo)
	}
	if err == nil {
		err = wait(ctx, r.h.idle)
	}
	n := 0
	if err == nil {
		n, err = db.clients(ctx)
	}
	for _, p := range workers {
		_, e := p.stop()
		err = errors.Join(err, e)
	}
	return float64(n) / float64(k), err
}

// startWorkers starts worker processes that work until they are stopped, the
// first with the maintenance if that is asked for. On an error it returns those
// that it has started.
func (r *run) startWorkers(ctx context.Context, k, size int, gate bool) (workers []*process, err error) {
	procs := 0
	if k > 1 { // the processors are shared between them, as containers would be told
		procs = max(1, runtime.NumCPU()/k)
	}
	for i := range k {
		t := r.working(workTask{
			Size: size, Concurrency: max(1, r.entry.concurrency/k), Crowd: k > 1, Maintain: size > 1 && i == 0,
			Every: processMark, Gate: gate, Report: min(reportEvery*time.Duration(k), maxReport), Procs: procs,
		})
		t.Conns = processConns
		p, err := startChild(ctx, t)
		if err != nil {
			return workers, err
		}
		workers = append(workers, p)
	}
	return workers, nil
}

// open lets all of them work at the same time, once each has messages in its
// hands, so that the first ones do not do it all.
func open(ctx context.Context, workers []*process) error {
	for _, p := range workers {
		select {
		case <-p.held:
		case <-p.ended:
			return errors.Join(errors.New("a worker has ended"), p.failure())
		case <-ctx.Done():
			return fmt.Errorf("wait for the first messages of each worker: %w", ctx.Err())
		}
	}
	return tellAll(workers, tellOpen)
}

func tellAll(workers []*process, what string) error {
	for _, p := range workers {
		if err := p.tell(what); err != nil {
			return err
		}
	}
	return nil
}

func workedBy(workers []*process) int {
	n := 0
	for _, p := range workers {
		n += int(p.worked.Load())
	}
	return n
}

// ended is the error of a worker that has ended without being stopped.
func ended(workers []*process) error {
	for _, p := range workers {
		select {
		case <-p.ended:
			return errors.Join(errors.New("a worker has ended"), p.failure())
		default:
		}
	}
	return nil
}
