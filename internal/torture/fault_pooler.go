//go:build unix

package torture

import (
	"context"
	"time"
)

// killPooler kills PgBouncer, through which some processes connect in
// transaction mode, and starts it again.
type killPooler struct{}

func (killPooler) Name() string     { return "kill-pooler" }
func (killPooler) On(e Engine) bool { return e == Postgres }
func (killPooler) lacks(f *Field) string {
	if f.pooler == nil {
		return "there is no pgbouncer"
	}
	return ""
}

func (killPooler) Inflict(ctx context.Context, f *Field) error {
	var err error
	f.during(ctx, 500*time.Millisecond, 2*time.Second, func() {
		if err == nil {
			f.pooler.Crash()
			pause(ctx, f.between(0, time.Second))
			err = f.repair(ctx, f.pooler.Resume)
		}
	})
	return err
}
