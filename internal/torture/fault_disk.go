//go:build unix

package torture

import (
	"context"
	"time"
)

// fullDisk leaves no room for the data: what needs some is refused.
type fullDisk struct{}

func (fullDisk) Name() string          { return "full-disk" }
func (fullDisk) On(e Engine) bool      { return e == Postgres }
func (fullDisk) lacks(f *Field) string { return f.lacksDisk(f.data) }
func (fullDisk) Inflict(ctx context.Context, f *Field) error {
	return f.full(ctx, f.data, func(context.Context) {})
}

// fullLog leaves no room for the write-ahead log, which ends the server.
type fullLog struct{}

func (fullLog) Name() string          { return "full-log-disk" }
func (fullLog) On(e Engine) bool      { return e == Postgres }
func (fullLog) lacks(f *Field) string { return f.lacksDisk(f.log) }
func (fullLog) Inflict(ctx context.Context, f *Field) error {
	return f.full(ctx, f.log, func(ctx context.Context) {
		// Little is written in that time, and a segment is large.
		_, _ = f.DB.ExecContext(ctx, "SELECT pg_switch_wal()")
	})
}

func (f *Field) lacksDisk(d *disk) string {
	if d == nil {
		return f.noDisk
	}
	return ""
}

// full fills a disk for a while, during which act is called, and starts the
// server again if need be.
func (f *Field) full(ctx context.Context, d *disk, act func(ctx context.Context)) error {
	f.power.Lock()
	defer f.power.Unlock()
	if err := f.repair(ctx, func(context.Context) error { return d.fill() }); err != nil {
		return err
	}
	f.during(ctx, 100*time.Millisecond, 300*time.Millisecond, func() {
		call, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		act(call)
	})
	if err := d.release(); err != nil {
		return err
	}
	err := f.resume(ctx)
	f.back()
	return err
}
