package client

import (
	"context"
	"fmt"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/name"
	"github.com/styxmq/styx/internal/store"
)

// Queues shows queues and pauses them. Get it from [Client.Queues]. It is safe
// for concurrent use.
type Queues struct {
	c *Client
}

// Queues returns the operations on queues.
func (c *Client) Queues() *Queues { return &Queues{c} }

// Queue is a queue that holds messages, or is paused.
type Queue struct {
	QueueStats
	// Pause is nil while the queue is worked.
	Pause *Pause `json:"pause"`
}

// Pause is why and how long a queue is not worked.
type Pause struct {
	Since time.Time `json:"since"`
	// Until is when the pause ends by itself; zero is never.
	Until  time.Time `json:"until,omitzero"`
	Actor  string    `json:"actor,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// PauseOptions say who pauses, why and how long.
type PauseOptions struct {
	// Until ends the pause by itself, or For does, that long from now by the
	// database's clock. Only one may be set, up to message.MaxDelay ahead.
	// Defaults to no end.
	Until time.Time
	For   time.Duration
	// Actor is a person or program, up to 128 bytes.
	Actor string
	// Origin is where the request came from, such as an address, up to 128
	// bytes.
	Origin string
	// Reason is up to 1,024 bytes.
	Reason string
}

// ResumeOptions say who resumes and why.
type ResumeOptions struct {
	// Actor is a person or program, up to 128 bytes.
	Actor string
	// Origin is where the request came from, up to 128 bytes.
	Origin string
	// Reason is up to 1,024 bytes.
	Reason string
}

// List returns every queue that holds messages which are not done, or dead
// ones, and every paused one, by name. Counts are bounded as in
// [Client.Stats].
func (q *Queues) List(ctx context.Context) ([]Queue, error) {
	stats, err := q.c.Stats(ctx)
	if err != nil {
		return nil, err
	}
	pauses, err := q.c.store.Pauses(ctx)
	if err != nil {
		return nil, fmt.Errorf("list pauses: %w", err)
	}
	return mergeQueues(stats, pauses), nil
}

// Get returns one queue. One that holds nothing and never was is there too:
// its counts are 0.
func (q *Queues) Get(ctx context.Context, queue string) (*Queue, error) {
	if err := name.Check("queue", queue); err != nil {
		return nil, err
	}
	all, err := q.List(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Queue == queue {
			return &all[i], nil
		}
	}
	return &Queue{QueueStats: QueueStats{Queue: queue}}, nil
}

// Pause stops the work on a queue: within about a second no worker and no
// [Leases.Claim] takes messages from it. What is being worked goes on to its
// end, and enqueueing goes on. A queue need not exist yet. A second call
// replaces reason and end. opts may be nil.
func (q *Queues) Pause(ctx context.Context, queue string, opts *PauseOptions) error {
	if opts == nil {
		opts = new(PauseOptions)
	}
	var p problems
	p.collect(name.Check("queue", queue))
	if opts.For < 0 || opts.For > message.MaxDelay {
		p.add("for", message.CodeOutOfRange, "for must be 0 for no end, to %s, not %s.", message.MaxDelay, opts.For)
	}
	if opts.For != 0 && !opts.Until.IsZero() {
		p.add("until", message.CodeInvalid, "until and for must not both be set.")
	}
	if opts.Until.Unix() > time.Now().Add(message.MaxDelay+clockTolerance).Unix() {
		p.add("until", message.CodeOutOfRange, "until must be at most %s ahead.", message.MaxDelay)
	}
	by := p.by(opts.Actor, opts.Origin, opts.Reason)
	if err := p.err(); err != nil {
		return err
	}
	err := retry(ctx, nil, func() error {
		return q.c.store.Pause(ctx, store.PauseRequest{Queue: queue, Until: opts.Until, For: opts.For}, by)
	})
	if err != nil {
		return fmt.Errorf("pause queue %q: %w", queue, err)
	}
	return nil
}

// Resume ends the pause of a queue, for every worker within about a second.
// It reports whether the queue was paused; when it was not, nothing happens.
// opts may be nil.
func (q *Queues) Resume(ctx context.Context, queue string, opts *ResumeOptions) (bool, error) {
	if opts == nil {
		opts = new(ResumeOptions)
	}
	var p problems
	p.collect(name.Check("queue", queue))
	by := p.by(opts.Actor, opts.Origin, opts.Reason)
	if err := p.err(); err != nil {
		return false, err
	}
	var was bool
	err := retry(ctx, nil, func() (err error) {
		was, err = q.c.store.Resume(ctx, queue, by)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("resume queue %q: %w", queue, err)
	}
	return was, nil
}

// mergeQueues joins counts and pauses, both by name, into one list by name.
func mergeQueues(stats []QueueStats, pauses []store.Pause) []Queue {
	out := make([]Queue, 0, len(stats)+len(pauses))
	for _, s := range stats {
		for len(pauses) > 0 && pauses[0].Queue < s.Queue {
			out = append(out, Queue{QueueStats: QueueStats{Queue: pauses[0].Queue}, Pause: pauseOf(pauses[0])})
			pauses = pauses[1:]
		}
		row := Queue{QueueStats: s}
		if len(pauses) > 0 && pauses[0].Queue == s.Queue {
			row.Pause = pauseOf(pauses[0])
			pauses = pauses[1:]
		}
		out = append(out, row)
	}
	for _, p := range pauses {
		out = append(out, Queue{QueueStats: QueueStats{Queue: p.Queue}, Pause: pauseOf(p)})
	}
	return out
}

func pauseOf(p store.Pause) *Pause {
	return &Pause{Since: p.Since, Until: p.Until, Actor: p.Actor, Reason: p.Reason}
}

// by checks who asks for something, and from where.
func (p *problems) by(who, origin, reason string) store.Actor {
	p.actor(who, reason)
	p.collect(name.Optional("origin", origin, message.MaxNameLength))
	return store.Actor{Name: who, Origin: origin, Reason: reason}
}
