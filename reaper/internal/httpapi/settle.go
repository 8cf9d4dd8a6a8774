package httpapi

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

// outcome is a settlement as a body describes it.
type outcome struct {
	client.Settlement
	failed  client.FailOptions
	kind    string
	verb    string
	retryIn time.Duration
}

// token reads lease_token.
func (o *outcome) token(f *fields, field string, raw []byte) bool {
	if field != "lease_token" {
		return false
	}
	f.integer(field, raw, 1, math.MaxInt64, &o.Token)
	return true
}

// failure reads what a failure may have.
func (o *outcome) failure(f *fields, field string, raw []byte) bool {
	switch field {
	case "error":
		f.text(field, raw, &o.failed.Error)
	case "error_class":
		f.text(field, raw, &o.failed.Class)
	case "stack":
		f.text(field, raw, &o.failed.Stack)
	case "failure_kind":
		f.text(field, raw, &o.kind)
	case "retry_in":
		if f.seconds(field, raw, &o.retryIn) {
			o.failed.RetryIn = &o.retryIn
		}
	default:
		return o.token(f, field, raw)
	}
	return true
}

// released reads what a release may have.
func (o *outcome) released(f *fields, field string, raw []byte) bool {
	if field == "delay" {
		f.seconds(field, raw, &o.Delay)
		return true
	}
	return o.token(f, field, raw)
}

// settlement is what the client takes.
func (o *outcome) settlement(verb client.SettleVerb) client.Settlement {
	o.Verb = verb
	if verb == client.VerbFail {
		o.failed.Kind = message.FailureKind(o.kind)
		o.Fail = &o.failed
	}
	return o.Settlement
}

// demand refuses a missing token where there must be one.
func (h *Handler) demand(f *fields, token int64) {
	if h.cfg.RequireLeaseToken && token == 0 && len(f.errs) == 0 {
		f.refuse("lease_token", message.CodeRequired, "lease_token must be given; the claim has it.")
	}
}

// one records one outcome and shows the message.
func (h *Handler) one(c *call, verb client.SettleVerb, read func(o *outcome, f *fields, field string, raw []byte) bool) (*reply, error) {
	var (
		f fields
		o outcome
	)
	if err := c.object(&f, func(field string, raw []byte) bool { return read(&o, &f, field, raw) }); err != nil {
		return nil, err
	}
	h.demand(&f, o.Token)
	if err := f.err(); err != nil {
		return nil, err
	}
	s := o.settlement(verb)
	leases := h.cfg.Client.Leases()
	var err error
	switch verb {
	case client.VerbSucceed:
		err = leases.Succeed(c.ctx, c.queue, c.id, s.Token)
	case client.VerbFail:
		err = leases.Fail(c.ctx, c.queue, c.id, s.Token, s.Fail)
	default:
		err = leases.Release(c.ctx, c.queue, c.id, s.Token, s.Delay)
	}
	if err != nil {
		return nil, err
	}
	return h.show(c)
}

func (h *Handler) succeed(c *call) (*reply, error) {
	return h.one(c, client.VerbSucceed, (*outcome).token)
}

func (h *Handler) fail(c *call) (*reply, error) {
	return h.one(c, client.VerbFail, (*outcome).failure)
}

func (h *Handler) release(c *call) (*reply, error) {
	return h.one(c, client.VerbRelease, (*outcome).released)
}

func (h *Handler) extend(c *call) (*reply, error) {
	var (
		f     fields
		o     outcome
		lease = client.DefaultLease
	)
	err := c.object(&f, func(field string, raw []byte) bool {
		if field == "lease" {
			f.lease(field, raw, &lease)
			return true
		}
		return o.token(&f, field, raw)
	})
	if err != nil {
		return nil, err
	}
	h.demand(&f, o.Token)
	if err := f.err(); err != nil {
		return nil, err
	}
	if _, err := h.cfg.Client.Leases().Extend(c.ctx, c.queue, c.id, o.Token, lease); err != nil {
		return nil, err
	}
	return h.show(c)
}

// settled is the outcome of one settlement.
type settled struct {
	ID int64 `json:"id"`
	OK bool  `json:"ok"`
	// Problem says why not.
	Problem *problem `json:"problem,omitempty"`
}

func (h *Handler) settle(c *call) (*reply, error) {
	var (
		f     fields
		batch []client.Settlement
		given bool
	)
	err := c.object(&f, func(field string, raw []byte) bool {
		if field != "settlements" {
			return false
		}
		given = true
		batch = h.settlements(&f, raw)
		return true
	})
	if err != nil {
		return nil, err
	}
	if !given {
		f.refuse("settlements", message.CodeRequired, "settlements must be an array.")
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	results, err := h.cfg.Client.Leases().Settle(c.ctx, c.queue, batch)
	if err != nil {
		return nil, err
	}
	out := struct {
		Results []settled `json:"results"`
		Settled int       `json:"settled"`
	}{Results: make([]settled, len(results))}
	for i, err := range results {
		out.Results[i] = settled{ID: batch[i].ID, OK: err == nil}
		if err == nil {
			out.Settled++
			continue
		}
		p := problemOf(err)
		if p.kind == internal {
			p = h.failed(c.ctx, c.r, err)
		}
		out.Results[i].Problem = p
	}
	return ok(out), nil
}

// settlements reads the field of that name.
func (h *Handler) settlements(f *fields, raw []byte) []client.Settlement {
	if raw == nil || !f.isArray("settlements", raw) {
		if raw == nil {
			f.refuse("settlements", message.CodeRequired, "settlements must be an array.")
		}
		return nil
	}
	batch := []client.Settlement{}
	for i, element := range elements(raw) {
		at := "settlements[" + strconv.Itoa(i) + "]"
		if i == client.MaxSettle {
			f.refuse("settlements", message.CodeTooLong, fmt.Sprintf("settlements must be at most %d.", client.MaxSettle))
		}
		if len(f.errs) >= maxErrors || i == client.MaxSettle {
			return nil
		}
		if !f.isObject(at, element) {
			continue
		}
		inner := fields{prefix: at + "."}
		batch = append(batch, h.settlement(&inner, element))
		f.errs = append(f.errs, inner.errs...)
	}
	return batch
}

func (h *Handler) settlement(f *fields, raw []byte) client.Settlement {
	var o outcome
	f.object(raw, func(field string, raw []byte) bool {
		switch field {
		case "id":
			f.integer(field, raw, 1, math.MaxInt64, &o.ID)
		case "verb":
			f.text(field, raw, &o.verb)
		case "delay":
			return o.released(f, field, raw)
		default:
			return o.failure(f, field, raw)
		}
		return true
	})
	if o.ID == 0 && len(f.errs) == 0 {
		f.refuse("id", message.CodeRequired, "id must be given.")
	}
	h.demand(f, o.Token)
	return o.settlement(client.SettleVerb(o.verb))
}
