//go:build unix

package torture

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/postgres"
)

// crash stops the server at once and starts it again.
type crash struct{}

func (crash) Name() string     { return "crash" }
func (crash) On(e Engine) bool { return e == Postgres }
func (crash) Inflict(ctx context.Context, f *Field) error {
	f.power.Lock()
	defer f.power.Unlock()
	f.Server.Crash()
	pause(ctx, f.between(0, 2*time.Second))
	if err := f.resume(ctx); err != nil {
		return err
	}
	f.back()
	pause(ctx, time.Second)
	return nil
}

// resume starts the server again, where it does not run, and waits until it
// takes connections.
func (f *Field) resume(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), repairTime)
	defer cancel()
	for {
		// A server that falls again meanwhile is resumed again.
		err := f.Server.Resume(ctx)
		if err == nil {
			err = f.Server.AwaitReady(ctx)
		}
		if err == nil || !pause(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

// backend kills one process of the server, which restarts all of them.
type backend struct{}

func (backend) Name() string     { return "kill-backend" }
func (backend) On(e Engine) bool { return e == Postgres }
func (backend) Inflict(ctx context.Context, f *Field) error {
	pid := 0
	err := f.repair(ctx, func(ctx context.Context) error {
		return f.DB.QueryRowContext(ctx, `SELECT pid FROM pg_stat_activity
	WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1`).Scan(&pid)
	})
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return nil //nolint:nilerr // it has ended by itself meanwhile
	}
	// The server takes a moment to notice, and refuses while it recovers.
	pause(ctx, 500*time.Millisecond)
	err = f.repair(ctx, f.Server.AwaitReady)
	f.back()
	pause(ctx, time.Second)
	return err
}

// readOnly refuses writes, as a server that has become a standby does.
type readOnly struct{}

func (readOnly) Name() string     { return "read-only" }
func (readOnly) On(e Engine) bool { return e == Postgres }
func (readOnly) Inflict(ctx context.Context, f *Field) error {
	err := f.repair(ctx, f.statements("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"))
	if err != nil {
		return err
	}
	pause(ctx, min(f.Length, 5*time.Second))
	err = f.repair(ctx, f.statements("ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"))
	f.back()
	return err
}

// connections takes every connection that the server has to give.
type connections struct{}

func (connections) Name() string     { return "max-connections" }
func (connections) On(e Engine) bool { return e == Postgres }
func (connections) Inflict(ctx context.Context, f *Field) error {
	db, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(0)
	var held []bun.Conn
	ctx, cancel := context.WithTimeout(ctx, f.Length)
	defer cancel()
	// Whoever else gives one back loses it.
	for pause(ctx, 5*time.Millisecond) {
		call, done := context.WithTimeout(ctx, time.Second)
		if c, err := db.Conn(call); err == nil {
			held = append(held, c)
		} else {
			pause(ctx, 100*time.Millisecond)
		}
		done()
	}
	for _, c := range held {
		_ = c.Close()
	}
	return nil
}

// open makes another pool.
func (f *Field) open(ctx context.Context) (db *bun.DB, err error) {
	err = f.repair(ctx, func(ctx context.Context) (err error) {
		db, err = postgres.Open(ctx, f.Server.URL())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open another pool: %w", err)
	}
	return db, nil
}
