//go:build unix

package torture

import (
	"context"
	"time"
)

// poison makes a share of the messages do harm, of every sort there is.
type poison struct {
	name  string
	share float64
}

func (p poison) Name() string { return p.name }
func (poison) On(Engine) bool { return true }
func (p poison) Inflict(ctx context.Context, f *Field) error {
	f.crew.harm(p.share, 0)
	defer f.crew.harm(0, 0)
	f.during(ctx, time.Second, time.Second, func() {})
	return nil
}
