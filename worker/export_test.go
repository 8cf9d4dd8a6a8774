package worker

import "github.com/styxmq/styx/internal/store"

// NewOn is New on a store of the test's choice.
func NewOn(st store.Store, cfg Config) (*Worker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return newWorker(st, cfg), nil
}

// AbandonAfter is how long after a timeout an outcome counts.
const AbandonAfter = abandonAfter
