package httpapi

import (
	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

const (
	// MaxLimit is the largest page of a list.
	MaxLimit = 100
	// MaxOffset is the largest offset of a list.
	MaxOffset = 1_000_000
	// MaxWhole is the largest page of a list that shows texts in whole.
	MaxWhole = 10
	// Preview is how many bytes of a payload, an error or a stack other
	// lists show.
	Preview = 1 << 10
)

// page reads how much of a list is wanted: how many rows, and whether their
// texts in whole.
func (q *query) page(limit, preview *int) {
	whole, most := false, MaxLimit
	q.boolean("whole", &whole)
	*limit, *preview = client.DefaultPageSize, Preview
	if whole {
		*limit, *preview, most = MaxWhole, 0, MaxWhole
	}
	q.integer("limit", 1, most, limit)
}

// listQueue lists one queue.
func (h *Handler) listQueue(c *call) (*reply, error) {
	return h.listMessages(c, func(*query) string { return c.queue })
}

// list lists all queues, or the one in the query.
func (h *Handler) list(c *call) (*reply, error) {
	return h.listMessages(c, func(q *query) string {
		var queue string
		q.text("queue", &queue)
		return queue
	})
}

func (h *Handler) listMessages(c *call, queue func(q *query) string) (*reply, error) {
	q, err := parameters(c.r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	opts := client.ListOptions{Queue: queue(q)}
	var status string
	q.text("status", &status)
	q.text("kind", &opts.Kind)
	q.text("tenant", &opts.Tenant)
	q.text("correlation_id", &opts.CorrelationID)
	q.order(&opts.Descending)
	q.page(&opts.Limit, &opts.Preview)
	q.integer("offset", 0, MaxOffset, &opts.Offset)
	q.text("cursor", &opts.Cursor)
	if q.has("cursor") && q.has("offset") {
		q.refuse("offset", message.CodeInvalid, "offset must not be given beside a cursor.")
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	if c.caller.limited() && !c.caller.reaches(opts.Queue) {
		return nil, errQueue
	}
	opts.Status = message.Status(status)
	page, err := h.cfg.Client.List(c.ctx, opts)
	if err != nil {
		return nil, err
	}
	return ok(struct {
		Messages   []*messageView `json:"messages"`
		Count      int            `json:"count"`
		NextCursor *string        `json:"next_cursor"`
	}{c.caller.viewsOf(page.Messages), len(page.Messages), cursorOf(page.Next)}), nil
}

// in returns a message if it stands in the queue of the path.
func (h *Handler) in(c *call) (*message.Message, error) {
	m, err := h.cfg.Client.Get(c.ctx, c.id)
	if err != nil {
		return nil, err
	}
	if m.Queue != c.queue {
		return nil, message.ErrNotFound
	}
	return m, nil
}

// show answers with the message of the path as it is now.
func (h *Handler) show(c *call) (*reply, error) {
	m, err := h.in(c)
	if err != nil {
		return nil, err
	}
	return ok(c.caller.viewOf(m)), nil
}

func (h *Handler) get(c *call) (*reply, error) { return h.show(c) }

// find shows a message whatever its queue.
func (h *Handler) find(c *call) (*reply, error) {
	m, err := h.cfg.Client.Get(c.ctx, c.id)
	if err != nil {
		return nil, err
	}
	if !c.caller.reaches(m.Queue) {
		return nil, message.ErrNotFound
	}
	return ok(c.caller.viewOf(m)), nil
}

func (h *Handler) attempts(c *call) (*reply, error) {
	if _, err := h.in(c); err != nil {
		return nil, err
	}
	list, err := h.cfg.Client.Attempts(c.ctx, c.id)
	if err != nil {
		return nil, err
	}
	return ok(struct {
		Attempts []message.Attempt `json:"attempts"`
		Count    int               `json:"count"`
	}{orEmpty(list), len(list)}), nil
}
