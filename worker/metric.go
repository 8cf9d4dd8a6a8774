package worker

import (
	"context"
	"errors"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/telemetry"
)

// measure counts the outcomes of a batch.
func (r *run) measure(ctx context.Context, batch []settled, results []error) {
	if !r.metrics.Enabled(ctx) {
		return
	}
	for i, err := range results {
		r.metrics.Ended(ctx, telemetry.Ending{
			Message: &batch[i].task.m.Message, Settlement: &batch[i].s, Lost: errors.Is(err, message.ErrLeaseLost),
		})
	}
}

// measureOne counts the outcome of a task that the settler does not see.
func (r *run) measureOne(t *task, lost bool) {
	if !r.metrics.Enabled(t.Context) {
		return
	}
	s := store.Settlement{Verb: store.Succeed, Elapsed: t.elapsed()}
	r.metrics.Ended(t.Context, telemetry.Ending{Message: &t.m.Message, Settlement: &s, Lost: lost})
}
