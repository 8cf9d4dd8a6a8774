package storetest

import (
	"context"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// ClaimRemote passes the call on.
func (f *Faulty) ClaimRemote(ctx context.Context, r store.RemoteClaim) ([]message.Message, error) {
	return reply(f, "ClaimRemote", func() ([]message.Message, error) { return f.under.ClaimRemote(ctx, r) })
}

// SettleRemote passes the call on.
func (f *Faulty) SettleRemote(ctx context.Context, queue string, batch []store.RemoteSettlement) ([]error, error) {
	return reply(f, "SettleRemote", func() ([]error, error) { return f.under.SettleRemote(ctx, queue, batch) })
}

// ExtendRemote passes the call on.
func (f *Faulty) ExtendRemote(ctx context.Context, queue string, id, token int64, d time.Duration) (time.Time, error) {
	return reply(f, "ExtendRemote", func() (time.Time, error) { return f.under.ExtendRemote(ctx, queue, id, token, d) })
}

// Pause passes the call on.
func (f *Faulty) Pause(ctx context.Context, r store.PauseRequest, by store.Actor) error {
	return f.run("Pause", func() error { return f.under.Pause(ctx, r, by) })
}

// Resume passes the call on.
func (f *Faulty) Resume(ctx context.Context, queue string, by store.Actor) (bool, error) {
	return reply(f, "Resume", func() (bool, error) { return f.under.Resume(ctx, queue, by) })
}

// Pauses passes the call on.
func (f *Faulty) Pauses(ctx context.Context) ([]store.Pause, error) {
	return reply(f, "Pauses", func() ([]store.Pause, error) { return f.under.Pauses(ctx) })
}

// Workers passes the call on.
func (f *Faulty) Workers(ctx context.Context, limit int) ([]store.WorkerState, error) {
	return reply(f, "Workers", func() ([]store.WorkerState, error) { return f.under.Workers(ctx, limit) })
}

// Audit passes the call on.
func (f *Faulty) Audit(ctx context.Context, q store.AuditQuery) ([]store.AuditEntry, error) {
	return reply(f, "Audit", func() ([]store.AuditEntry, error) { return f.under.Audit(ctx, q) })
}

// Ticked passes the call on.
func (f *Faulty) Ticked(ctx context.Context) error {
	return f.run("Ticked", func() error { return f.under.Ticked(ctx) })
}

// Condition passes the call on.
func (f *Faulty) Condition(ctx context.Context) (store.Condition, error) {
	return reply(f, "Condition", func() (store.Condition, error) { return f.under.Condition(ctx) })
}
