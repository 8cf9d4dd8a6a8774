package httpapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

// MaxClaim is the largest number of messages of one claim.
const MaxClaim = 100

// errStopping ends the waits of a server that is about to stop.
var errStopping = errors.New("the server stops")

func (h *Handler) claim(c *call) (*reply, error) {
	var (
		f    fields
		opts client.ClaimOptions
		most int64
	)
	err := c.object(&f, func(field string, raw []byte) bool {
		switch field {
		case "max":
			f.integer(field, raw, 1, MaxClaim, &most)
		case "kinds":
			f.texts(field, raw, message.MaxNameLength, &opts.Kinds)
		case "wait":
			if f.seconds(field, raw, &opts.Wait) && opts.Wait > client.MaxWait {
				f.refuse(field, message.CodeOutOfRange, fmt.Sprintf("wait must be at most %g seconds.", client.MaxWait.Seconds()))
			}
		case "lease":
			f.lease(field, raw, &opts.Lease)
		default:
			return false
		}
		return true
	})
	if err == nil {
		err = f.err()
	}
	if err != nil {
		return nil, err
	}
	opts.Max = int(most)
	claimed, err := h.take(c, &opts)
	if err != nil {
		return nil, err
	}
	if most > 0 {
		return ok(struct {
			Claimed  bool           `json:"claimed"`
			Messages []*messageView `json:"messages"`
		}{len(claimed) > 0, c.caller.viewsOf(claimed)}), nil
	}
	var one *messageView
	if len(claimed) > 0 {
		one = c.caller.viewOf(&claimed[0])
	}
	return ok(struct {
		Claimed bool         `json:"claimed"`
		Message *messageView `json:"message"`
	}{one != nil, one}), nil
}

// lease reads the length of a lease.
func (f *fields) lease(field string, raw []byte, to *time.Duration) {
	if f.seconds(field, raw, to) && (*to < time.Second || *to > message.MaxTimeout) {
		f.refuse(field, message.CodeOutOfRange, fmt.Sprintf("%s must be 1 to %.0f seconds.", field, message.MaxTimeout.Seconds()))
	}
}

// take claims, and waits if it may.
func (h *Handler) take(c *call, opts *client.ClaimOptions) ([]message.Message, error) {
	ctx := c.ctx
	if opts.Wait > 0 {
		if !h.waits.try() {
			return nil, errBusy
		}
		defer h.waits.leave()
		c.leave() // whoever waits does not work
		waiting, cancel := context.WithTimeout(c.r.Context(), opts.Wait+h.cfg.Timeout)
		defer cancel()
		stopped, stop := h.untilStop(waiting)
		defer stop()
		ctx = stopped
	}
	claimed, err := h.cfg.Client.Leases().Claim(ctx, c.queue, opts)
	if err != nil && errors.Is(context.Cause(ctx), errStopping) {
		return nil, nil
	}
	if err == nil && len(claimed) > 0 && c.r.Context().Err() != nil {
		h.giveBack(c, claimed)
	}
	return claimed, err
}

// untilStop returns a context that also ends when the server is about to stop.
func (h *Handler) untilStop(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-h.cfg.Stopping: // never, if it is nil
			cancel(errStopping)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// giveBack releases what was claimed for somebody who is gone.
func (h *Handler) giveBack(c *call, claimed []message.Message) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), h.cfg.Timeout)
	defer cancel()
	batch := make([]client.Settlement, len(claimed))
	for i := range claimed {
		batch[i] = client.Settlement{ID: claimed[i].ID, Token: claimed[i].LeaseToken, Verb: client.VerbRelease}
	}
	if _, err := h.cfg.Client.Leases().Settle(ctx, c.queue, batch); err != nil {
		h.cfg.Logger.WarnContext(ctx, "claimed messages not given back", "queue", c.queue, "messages", len(batch), "error", err)
	}
}
