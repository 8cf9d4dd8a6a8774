package httpapi

import (
	"math"
	"time"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

func (h *Handler) letters(c *call) (*reply, error) {
	q, err := parameters(c.r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	var opts client.DeadLetterOptions
	var decision string
	q.text("queue", &opts.Queue)
	q.text("kind", &opts.Kind)
	q.text("tenant", &opts.Tenant)
	q.text("error_class", &opts.ErrorClass)
	q.text("fingerprint", &opts.Fingerprint)
	q.text("decision", &decision)
	q.boolean("resolved", &opts.Resolved)
	q.page(&opts.Limit, &opts.Preview)
	q.text("cursor", &opts.Cursor)
	if err := q.err(); err != nil {
		return nil, err
	}
	if c.caller.limited() && !c.caller.reaches(opts.Queue) {
		return nil, errQueue
	}
	opts.Decision = message.Decision(decision)
	page, err := h.cfg.Client.DeadLetters().List(c.ctx, opts)
	if err != nil {
		return nil, err
	}
	views := make([]*letterView, len(page.DeadLetters))
	for i := range page.DeadLetters {
		views[i] = c.caller.letterOf(&page.DeadLetters[i])
	}
	return ok(struct {
		DeadLetters []*letterView `json:"dead_letters"`
		Count       int           `json:"count"`
		NextCursor  *string       `json:"next_cursor"`
	}{views, len(views), cursorOf(page.Next)}), nil
}

func (h *Handler) letter(c *call) (*reply, error) {
	letter, err := h.cfg.Client.DeadLetters().Get(c.ctx, c.id)
	if err != nil {
		return nil, err
	}
	if letter.Queue != c.queue {
		return nil, message.ErrNotFound
	}
	attempts, err := h.cfg.Client.Attempts(c.ctx, c.id)
	if err != nil {
		return nil, err
	}
	attempts = orEmpty(attempts)
	view := c.caller.letterOf(letter)
	view.Attempts = &attempts
	return ok(view), nil
}

// why reads a body that holds at most a reason.
func (c *call) why() (string, error) {
	var (
		f      fields
		reason string
	)
	err := c.object(&f, func(field string, raw []byte) bool {
		if field != "reason" {
			return false
		}
		f.text(field, raw, &reason)
		return true
	})
	if err == nil {
		err = f.err()
	}
	return c.reason(reason), err
}

// decide does what an operator decides about the message of the path, and
// shows it.
func (h *Handler) decide(c *call, do func(reason string) error) (*reply, error) {
	reason, err := c.why()
	if err != nil {
		return nil, err
	}
	if _, err := h.in(c); err != nil {
		return nil, err
	}
	if err := do(reason); err != nil {
		return nil, err
	}
	return h.show(c)
}

func (h *Handler) replay(c *call) (*reply, error) {
	return h.decide(c, func(reason string) error {
		return h.cfg.Client.DeadLetters().Replay(c.ctx, c.id, &client.ReplayOptions{
			Actor: c.caller.name, Origin: c.origin(), Reason: reason,
		})
	})
}

func (h *Handler) resolve(c *call) (*reply, error) {
	return h.decide(c, func(reason string) error {
		return h.cfg.Client.DeadLetters().Resolve(c.ctx, c.id, &client.ResolveOptions{
			Actor: c.caller.name, Origin: c.origin(), Reason: reason,
		})
	})
}

func (h *Handler) cancel(c *call) (*reply, error) {
	return h.decide(c, func(reason string) error {
		return h.cfg.Client.Cancel(c.ctx, c.id, &client.CancelOptions{
			Actor: c.caller.name, Origin: c.origin(), Reason: reason,
		})
	})
}

func (h *Handler) purge(c *call) (*reply, error) {
	opts := client.PurgeOptions{Actor: c.caller.name, Origin: c.origin()}
	var f fields
	err := c.object(&f, func(field string, raw []byte) bool {
		switch field {
		case "message_id":
			f.integer(field, raw, 1, math.MaxInt64, &opts.MessageID)
		case "queue":
			f.text(field, raw, &opts.Queue)
			if string(raw) == `""` {
				f.required(field) // an empty filter would select everything
			}
		case "older_than":
			if f.seconds(field, raw, &opts.OlderThan) && opts.OlderThan < time.Microsecond {
				f.refuse(field, message.CodeOutOfRange, "older_than must be more than 0 seconds.")
			}
		case "resolved":
			f.boolean(field, raw, &opts.Resolved)
		case "all":
			f.boolean(field, raw, &opts.All)
		case "reason":
			f.text(field, raw, &opts.Reason)
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
	if c.caller.limited() && !c.caller.reaches(opts.Queue) {
		return nil, errQueue
	}
	opts.Reason = c.reason(opts.Reason)
	n, err := h.cfg.Client.DeadLetters().Purge(c.ctx, opts)
	if err != nil && n > 0 && !isInvalid(err) {
		p := problemOf(err)
		if p.kind == internal {
			p = h.failed(c.ctx, c.r, err)
		}
		p.Purged = &n // gone all the same
		return nil, p
	}
	if err != nil {
		return nil, err
	}
	return ok(struct {
		Purged int `json:"purged"`
	}{n}), nil
}
