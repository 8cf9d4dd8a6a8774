package storetest

import (
	"context"
	"time"

	"github.com/styxmq/styx/internal/store"
)

// TakeDuty passes the call on.
func (f *Faulty) TakeDuty(ctx context.Context, duty, holder string, d time.Duration) (bool, error) {
	return reply(f, "TakeDuty", func() (bool, error) { return f.under.TakeDuty(ctx, duty, holder, d) })
}

// LeaveDuty passes the call on.
func (f *Faulty) LeaveDuty(ctx context.Context, duty, holder string) error {
	return f.run("LeaveDuty", func() error { return f.under.LeaveDuty(ctx, duty, holder) })
}

// Gauge passes the call on.
func (f *Faulty) Gauge(ctx context.Context) (store.Gauges, error) {
	return reply(f, "Gauge", func() (store.Gauges, error) { return f.under.Gauge(ctx) })
}
