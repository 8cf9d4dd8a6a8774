package check

import (
	"slices"

	"github.com/styxmq/styx/internal/torture/history"
)

// enqueue is what is known of one attempted enqueue.
type enqueue struct {
	tried, acked, undone bool
	id                   int64 // as acknowledged
	rows                 []int64
}

// attempt is what is known of one attempt of a message.
type attempt struct {
	starts      int
	start       int64
	process     string
	worker      int64
	ready, fail int64
	until       int64    // its lease lasts until then at least
	ended       *Attempt // its record in the database
	effects     int      // outside the database
	rejected    int64    // when its worker was told so, 0 if it was not
	committed   int      // effects in the database
}

// index orders everything by enqueue, message and attempt.
type index struct {
	enqueues map[string]*enqueue
	tokens   map[int64][]int64 // of each message that began, ascending
	attempts map[Lease]*attempt
	rows     map[int64][]*Message
	workers  map[int64]*Worker
	draining map[string]int64
	gone     map[string]int64
	first    int64   // event
	steps    []int64 // of the database's clock
}

func newIndex(events []history.Event, final *Final) *index {
	x := &index{
		enqueues: map[string]*enqueue{}, tokens: map[int64][]int64{}, attempts: map[Lease]*attempt{},
		rows: map[int64][]*Message{}, workers: map[int64]*Worker{}, draining: map[string]int64{}, gone: map[string]int64{},
	}
	for i := range events {
		x.add(&events[i])
	}
	if len(events) > 0 {
		x.first = events[0].At
	}
	for id := range x.tokens {
		slices.Sort(x.tokens[id])
	}
	for i := range final.Messages {
		m := &final.Messages[i]
		x.rows[m.ID] = append(x.rows[m.ID], m)
		e := x.enqueue(m.Op)
		e.rows = append(e.rows, m.ID)
	}
	for i := range final.Attempts {
		x.attempt(final.Attempts[i].Lease).ended = &final.Attempts[i]
	}
	for i := range final.Workers {
		x.workers[final.Workers[i].ID] = &final.Workers[i]
	}
	for _, l := range final.Effects {
		x.attempt(l).committed++
	}
	return x
}

func (x *index) add(e *history.Event) {
	switch e.Kind {
	case history.Try:
		for _, op := range e.Ops {
			x.enqueue(op).tried = true
		}
	case history.Undone:
		for _, op := range e.Ops {
			x.enqueue(op).undone = true
		}
	case history.Ack:
		for i, op := range e.Ops {
			q := x.enqueue(op)
			q.acked = true
			if i < len(e.IDs) && e.IDs[i] != 0 {
				q.id = e.IDs[i]
			}
		}
	case history.Start:
		a := x.attempt(Lease{e.ID, e.Token})
		if a.starts++; a.starts == 1 {
			a.start, a.process, a.worker, a.until = e.At, e.Process, e.Worker, e.Until
			x.tokens[e.ID] = append(x.tokens[e.ID], e.Token)
		}
	case history.Ready:
		if a := x.attempt(Lease{e.ID, e.Token}); a.ready == 0 {
			a.ready = e.At // one in a transaction comes to it twice
		}
	case history.Fail:
		x.attempt(Lease{e.ID, e.Token}).fail = e.At
	case history.Effect:
		x.attempt(Lease{e.ID, e.Token}).effects++
	case history.Rejected:
		x.attempt(Lease{e.ID, e.Token}).rejected = e.At
	case history.Draining:
		x.draining[e.Process] = e.At
	case history.Stepped:
		x.steps = append(x.steps, e.At)
	case history.Gone:
		x.gone[e.Name] = e.At
	default:
	}
}

func (x *index) enqueue(op string) *enqueue {
	e := x.enqueues[op]
	if e == nil {
		e = &enqueue{}
		x.enqueues[op] = e
	}
	return e
}

func (x *index) attempt(l Lease) *attempt {
	a := x.attempts[l]
	if a == nil {
		a = &attempt{}
		x.attempts[l] = a
	}
	return a
}

// began returns when the first attempt after a token began, 0 if none did.
func (x *index) began(l Lease) int64 {
	for _, t := range x.tokens[l.ID] {
		if t > l.Token {
			return x.attempts[Lease{l.ID, t}].start
		}
	}
	return 0
}
