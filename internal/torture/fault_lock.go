//go:build unix

package torture

import (
	"context"
	"time"
)

// writeLock takes the only lock that lets anybody write, for seconds.
type writeLock struct{}

func (writeLock) Name() string     { return "write-lock" }
func (writeLock) On(e Engine) bool { return e == SQLite }
func (writeLock) Inflict(ctx context.Context, f *Field) error {
	f.during(ctx, 200*time.Millisecond, time.Second, func() {
		tx, err := f.DB.BeginTx(ctx, nil) // takes the lock at once
		if err != nil {
			return
		}
		pause(ctx, f.between(100*time.Millisecond, 2*time.Second))
		_ = tx.Rollback()
	})
	return nil
}
