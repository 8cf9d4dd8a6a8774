package maintain

import (
	"context"
	"fmt"
)

// Prepare makes room for what the coming days will store.
type Prepare struct{ Settings }

// RunOnce prepares. It changes nothing that anybody would count.
func (p Prepare) RunOnce(ctx context.Context) error {
	if err := p.step(ctx, p.Store.Prepare); err != nil {
		return fmt.Errorf("make room for the coming days: %w", err)
	}
	return nil
}
