//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/styxmq/styx/internal/torture/history"
)

const pathMessages = "/queues/default/messages"

// draft is a message as the HTTP API takes it.
type draft struct {
	Kind       string  `json:"kind"`
	Payload    string  `json:"payload"`
	MaxRetries int     `json:"max_retries"`
	Priority   int     `json:"priority"`
	Delay      float64 `json:"delay"`
	Key        string  `json:"idempotency_key,omitempty"`
}

// callOnce enqueues over HTTP, in one of the ways that there are.
func (p *producer) callOnce(ctx context.Context, rng *rand.Rand) int {
	switch r := rng.Float64(); {
	case r < 0.6:
		p.callSingle(ctx, rng, true)
	case r < 0.85:
		p.callSingle(ctx, rng, false)
	default:
		p.callMany(ctx, rng)
		return bulk
	}
	return 1
}

// draft makes a message of the shared kind, and of the other one sometimes.
func (p *producer) draft(rng *rand.Rand, keyed bool) (draft, string) {
	kind := kindShared
	if rng.IntN(8) == 0 {
		kind = job{}.Kind()
	}
	j, opts := p.item(rng, keyed)
	switch {
	case kind != kindShared:
	case j.Do == dieTx, j.Do == dieCommitted:
		j.Do = dieReturned
	case j.Do == doTx, j.Do == doExit, j.Do == doIgnore:
		j.Do = doWork
	}
	d := draft{
		Kind: kind, Payload: j.text(), MaxRetries: opts.MaxRetries, Priority: opts.Priority, Delay: opts.Delay.Seconds(),
		Key: opts.IdempotencyKey,
	}
	if j.Do == doIgnore {
		j.Do = doError // its timeout belongs to it
		d.Payload = j.text()
	}
	return d, j.Op
}

func (p *producer) callSingle(ctx context.Context, rng *rand.Rand, keyed bool) {
	d, op := p.draft(rng, keyed)
	key := d.Key
	if rng.IntN(2) == 0 {
		d.Key = "" // the header says it alone
	}
	p.try(op)
	p.insist(ctx, keyed, func(ctx context.Context) error {
		var m remoteMessage
		err := p.api.post(ctx, pathMessages, key, d, &m)
		if err == nil {
			p.ack([]int64{m.ID}, op)
		}
		return p.blame(err)
	}, op)
}

func (p *producer) callMany(ctx context.Context, rng *rand.Rand) {
	ops := make([]string, bulk)
	var body struct {
		Messages []draft `json:"messages"`
	}
	for i := range ops {
		var d draft
		d, ops[i] = p.draft(rng, true)
		body.Messages = append(body.Messages, d)
	}
	p.try(ops...)
	p.insist(ctx, true, func(ctx context.Context) error {
		var stored struct {
			Messages []remoteMessage `json:"messages"`
		}
		err := p.api.post(ctx, pathMessages, "", body, &stored)
		if err == nil {
			ids := make([]int64, len(stored.Messages))
			for i := range ids {
				ids[i] = stored.Messages[i].ID
			}
			p.ack(ids, ops...)
		}
		return p.blame(err)
	}, ops...)
}

// blame notes an answer that there must not be: the calls are well formed.
func (p *player) blame(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok && r.wrong() {
		p.h.Add(history.Event{Kind: history.Broken, Name: p.Name, Note: fmt.Sprintf("the daemon answered %s", r)})
	}
	return err
}
