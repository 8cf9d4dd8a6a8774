//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/styxmq/styx/internal/testdb/server"
)

const (
	// poolSize is how many connections the pooler has to the server.
	poolSize = 20
	// poolerMode is the protocol that needs no prepared statements.
	poolerMode = "&default_query_exec_mode=cache_describe"
)

// needy is a fault that not every machine can have.
type needy interface {
	// lacks says why this run cannot have it, or nothing.
	lacks(f *Field) string
}

// wants reports whether a fault is among those of the run.
func (r *coordinator) wants(name string) bool {
	return slices.ContainsFunc(r.faults, func(f Fault) bool { return f.Name() == name })
}

// skip leaves out what this machine cannot have, and says so.
func (r *coordinator) skip() {
	r.faults = slices.DeleteFunc(r.faults, func(f Fault) bool {
		n, ok := f.(needy)
		if !ok {
			return false
		}
		why := n.lacks(&r.field)
		if why != "" {
			fmt.Fprintf(r.Log, "torture: %s is skipped: %s\n", f.Name(), why)
		}
		return why != ""
	})
}

// startServer starts PostgreSQL with what stands before and below it. What it
// returns ends everything, however far it came.
func (r *coordinator) startServer(ctx context.Context) (stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var errs []error
		for _, f := range slices.Backward(stops) {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	cfg := server.Config{Settings: []string{
		"max_connections=150", "idle_in_transaction_session_timeout=10s", "shared_buffers=256MB",
	}}
	for _, place := range []struct {
		fault   string
		disk    **disk
		folder  *string
		setting []string
	}{
		{fullDisk{}.Name(), &r.field.data, &cfg.Parent, nil},
		// A recycled segment needs no room.
		{fullLog{}.Name(), &r.field.log, &cfg.WALParent, []string{"wal_recycle=off", "max_wal_size=256MB"}},
	} {
		if !r.wants(place.fault) {
			continue
		}
		d, err := mountDisk()
		if err != nil {
			r.field.noDisk = err.Error()
			continue
		}
		stops = append(stops, d.unmount)
		*place.disk, *place.folder = d, d.dir
		cfg.Settings = append(cfg.Settings, place.setting...)
	}
	s, err := server.Start(ctx, cfg)
	if err != nil {
		return stop, err
	}
	stops = append(stops, s.Stop)
	if r.field.Proxy, err = NewProxy(ctx, s.Addr()); err != nil {
		return stop, err
	}
	stops = append(stops, func() error { r.field.Proxy.Close(); return nil })
	r.field.Server, r.url, r.other = s, s.URL(), s.URLAt(r.field.Proxy.Addr())
	if !r.wants(killPooler{}.Name()) {
		return stop, nil
	}
	p, err := server.StartPooler(ctx, s.URL(), poolSize)
	if errors.Is(err, server.ErrNoPooler) {
		return stop, nil
	}
	if err != nil {
		return stop, err
	}
	stops = append(stops, p.Stop)
	r.field.pooler, r.pooled = p, p.URL()+poolerMode
	return stop, nil
}

// urlOf is how the process of a number connects: every other one through the
// proxy, a producer, a worker and the operator through the pooler, if there is one.
func (r *coordinator) urlOf(role string, i int) string {
	switch {
	case r.pooled != "" && (i == 2 && role == roleWorker || i == 0 && (role == roleProducer || role == roleOperator)):
		return r.pooled
	case i%2 == 1:
		return r.other
	}
	return r.url
}
