package maintain

import (
	"context"
	"fmt"
)

// Expire ends messages that were not started in time.
type Expire struct{ Settings }

// RunOnce expires until none is left, and returns how many there were.
func (e Expire) RunOnce(ctx context.Context) (int, error) {
	n, err := e.drain(ctx, e.Store.Expire)
	if err != nil {
		return n, fmt.Errorf("end expired messages: %w", err)
	}
	return n, nil
}
