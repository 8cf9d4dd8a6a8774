//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Engine is the database under test.
type Engine string

// The engines.
const (
	Postgres Engine = "postgres"
	SQLite   Engine = "sqlite"
)

// Config says how a run goes. The zero value is a run of ten minutes on
// PostgreSQL with all faults, one after the other.
type Config struct {
	// Engine defaults to Postgres.
	Engine Engine
	// Duration is how long messages are enqueued, Messages how many must be
	// stored before that ends, for up to four times as long. Duration
	// defaults to 10 minutes, Messages to 0.
	Duration time.Duration
	Messages int
	// Seed decides the order of faults and what each message is; when it is
	// done depends on the machine. Defaults to the time.
	Seed uint64
	// Faults are the names of those to inflict; see [Faults]. Nil is all of
	// the engine's, an empty slice none.
	Faults []string
	// Together is how many faults are inflicted at once. Defaults to 1.
	Together int
	// Length is how long one fault lasts, Calm how long nothing happens
	// after it. They default to 10 and 5 seconds.
	Length, Calm time.Duration
	// Lease of the workers. Defaults to theirs.
	Lease time.Duration
	// Rate is how many messages per second are enqueued at most, Backlog at
	// how many unfinished ones producers wait. They default to 600 and
	// 2,000.
	Rate    float64
	Backlog int
	// Producers, Workers, Reapers are numbers of processes. They default to
	// 2, 4 and 2.
	Producers, Workers, Reapers int
	// Daemons is how many processes serve the HTTP API. For each there is one
	// more that enqueues over it and one that claims and settles over it.
	// Defaults to 1, negative is none.
	Daemons int
	// Poison is the share of messages that do harm all the time.
	Poison float64
	// Handler is how long a handler runs on average; one in a hundred takes
	// up to two seconds in any case. Defaults to 8 ms.
	Handler time.Duration
	// Env is added to the environment of the processes.
	Env []string
	// Drain is how long the queues may stand still in the end before what is
	// left in them counts as stuck. Defaults to 5 minutes.
	Drain time.Duration
	// Dir is the folder of the histories, which are left there. Defaults to
	// a temporary one, which is kept when a promise was broken, unless
	// Discard says not to.
	Dir     string
	Discard bool
	// Binary is the program whose main calls [RunRole]. Defaults to this
	// one.
	Binary string
	// Log takes a line for each fault. Defaults to none.
	Log io.Writer

	// spare keeps one worker and one reaper from faults, and vitals is how
	// often these processes tell how they are; watch runs beside the faults.
	spare  bool
	vitals time.Duration
	watch  func(ctx context.Context, r *coordinator) error
}

func (c Config) withDefaults() (Config, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	count := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	if c.Engine == "" {
		c.Engine = Postgres
	}
	if c.Engine != Postgres && c.Engine != SQLite {
		return c, fmt.Errorf("engine %q is neither postgres nor sqlite", c.Engine)
	}
	def(&c.Duration, 10*time.Minute)
	def(&c.Length, 10*time.Second)
	def(&c.Calm, 5*time.Second)
	def(&c.Lease, 15*time.Second)
	def(&c.Drain, 5*time.Minute)
	def(&c.Handler, 8*time.Millisecond)
	count(&c.Together, 1)
	count(&c.Backlog, 2000)
	count(&c.Producers, 2)
	count(&c.Workers, 4)
	count(&c.Reapers, 2)
	count(&c.Daemons, 1)
	c.Daemons = max(c.Daemons, 0)
	if c.Rate == 0 {
		c.Rate = 600
	}
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	if c.Binary == "" {
		var err error
		if c.Binary, err = os.Executable(); err != nil {
			return c, fmt.Errorf("find this program: %w", err)
		}
	}
	return c, nil
}

// selected returns the faults of the run.
func (c Config) selected() ([]Fault, error) {
	var fs []Fault
	for _, f := range known {
		if _, remote := f.(overHTTP); remote && c.Daemons == 0 {
			continue
		}
		if (c.Faults == nil || slices.Contains(c.Faults, f.Name())) && f.On(c.Engine) {
			fs = append(fs, f)
		}
	}
	var errs []error
	for _, name := range c.Faults {
		if !slices.ContainsFunc(fs, func(f Fault) bool { return f.Name() == name }) {
			errs = append(errs, fmt.Errorf("no fault %q on %s; there are %s", name, c.Engine, strings.Join(Faults(c.Engine), ", ")))
		}
	}
	return fs, errors.Join(errs...)
}
