package httpapi

import (
	"time"

	"github.com/styxmq/styx/client"
)

// queueView is a queue as JSON. Its counts end at client.StatsCap.
type queueView struct {
	Queue       string     `json:"queue"`
	Ready       int        `json:"ready"`
	Scheduled   int        `json:"scheduled"`
	Processing  int        `json:"processing"`
	Dead        int        `json:"dead"`
	OldestReady float64    `json:"oldest_ready"`
	Paused      bool       `json:"paused"`
	Pause       *pauseView `json:"pause"`
}

type pauseView struct {
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until"`
	Actor  *string    `json:"actor"`
	Reason *string    `json:"reason"`
}

func queueOf(q *client.Queue) *queueView {
	v := &queueView{
		Queue: q.Queue, Ready: q.Ready, Scheduled: q.Scheduled, Processing: q.Processing, Dead: q.Dead,
		OldestReady: q.OldestReady.Seconds(), Paused: q.Pause != nil,
	}
	if p := q.Pause; p != nil {
		v.Pause = &pauseView{Since: p.Since.UTC(), Until: moment(p.Until), Actor: text(p.Actor), Reason: text(p.Reason)}
	}
	return v
}

func (h *Handler) queues(c *call) (*reply, error) {
	if err := c.noQuery(); err != nil {
		return nil, err
	}
	list, err := h.cfg.Client.Queues().List(c.ctx)
	if err != nil {
		return nil, err
	}
	views := []*queueView{}
	for i := range list {
		if c.caller.reaches(list[i].Queue) {
			views = append(views, queueOf(&list[i]))
		}
	}
	return ok(struct {
		Queues []*queueView `json:"queues"`
		Count  int          `json:"count"`
	}{views, len(views)}), nil
}

// noQuery refuses parameters where there are none.
func (c *call) noQuery() error {
	q, err := parameters(c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	return q.err()
}

func (h *Handler) queue(c *call) (*reply, error) {
	q, err := h.cfg.Client.Queues().Get(c.ctx, c.queue)
	if err != nil {
		return nil, err
	}
	return ok(queueOf(q)), nil
}

func (h *Handler) pause(c *call) (*reply, error) {
	opts := client.PauseOptions{Actor: c.caller.name, Origin: c.origin()}
	var f fields
	err := c.object(&f, func(field string, raw []byte) bool {
		switch field {
		case "until":
			f.moment(field, raw, &opts.Until)
		case "for":
			f.seconds(field, raw, &opts.For)
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
	opts.Reason = c.reason(opts.Reason)
	if err := h.cfg.Client.Queues().Pause(c.ctx, c.queue, &opts); err != nil {
		return nil, err
	}
	return h.queue(c)
}

func (h *Handler) resume(c *call) (*reply, error) {
	reason, err := c.why()
	if err != nil {
		return nil, err
	}
	_, err = h.cfg.Client.Queues().Resume(c.ctx, c.queue, &client.ResumeOptions{
		Actor: c.caller.name, Origin: c.origin(), Reason: reason,
	})
	if err != nil {
		return nil, err
	}
	return h.queue(c)
}
