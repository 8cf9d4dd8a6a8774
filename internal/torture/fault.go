//go:build unix

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/internal/testdb/server"
	"github.com/styxmq/styx/internal/torture/history"
)

// Fault is one way to break things. Faults run one after the other or beside
// each other, each as often as there is time.
type Fault interface {
	// Name is what it is called on the command line.
	Name() string
	// On reports whether the engine can have it.
	On(e Engine) bool
	// Inflict lasts about [Field.Length], or until ctx ends, and repairs
	// what must be repaired before it returns. An error ends the run: the
	// fault could not be inflicted or repaired.
	Inflict(ctx context.Context, f *Field) error
}

// known are the faults. A fault joins them here.
var known = []Fault{
	killWorkers{},
	killReapers{},
	killProducers{},
	killOperators{},
	killDaemons{},
	killConsumers{},
	codePoints{},
	zombies{},
	rolling{},
	poison{"poison-1", 0.01},
	poison{"poison-10", 0.1},
	poison{"poison-50", 0.5},
	crash{},
	backend{},
	readOnly{},
	connections{},
	cut{},
	blackHole{},
	halfOpen{},
	lostReply{},
	deaf{},
	writeLock{},
	heldSnapshot{},
	killPooler{},
	fullDisk{},
	fullLog{},
	clockSteps{},
}

// Faults are the names of an engine's faults.
func Faults(e Engine) (names []string) {
	for _, f := range known {
		if f.On(e) {
			names = append(names, f.Name())
		}
	}
	return names
}

// Field is what a fault may touch.
type Field struct {
	// Rand is the fault's own.
	Rand *rand.Rand
	// Length is how long a fault lasts, Lease that of the workers.
	Length, Lease time.Duration
	// Server and Proxy are nil on SQLite. Half of the processes connect
	// through the proxy.
	Server *server.Server
	Proxy  *Proxy
	// DB is the coordinator's own pool.
	DB *bun.DB

	crew *crew
	h    *history.Writer
	// power is held by who stops the server or lets it fall.
	power *sync.Mutex
	// pooler is nil without one; so are the disks of the data and of the
	// write-ahead log, and noDisk says why.
	pooler    *server.Pooler
	data, log *disk
	noDisk    string
}

// back notes that the database takes connections again.
func (f *Field) back() { f.h.Add(history.Event{Kind: history.Back}) }

// between returns a random duration.
func (f *Field) between(from, to time.Duration) time.Duration {
	return from + time.Duration(f.Rand.Int64N(int64(max(to-from, 1))))
}

// during calls act again and again for the length of the fault, after waits
// between from and to.
func (f *Field) during(ctx context.Context, from, to time.Duration, act func()) {
	ctx, cancel := context.WithTimeout(ctx, f.Length)
	defer cancel()
	for pause(ctx, f.between(from, to)) {
		act()
	}
}

// repairTime bounds a repair.
const repairTime = 2 * time.Minute

// repair runs a statement on the database until it works, even after ctx has
// ended; another fault may be in the way.
func (f *Field) repair(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), repairTime)
	defer cancel()
	for {
		call, done := context.WithTimeout(ctx, 10*time.Second)
		err := do(call)
		done()
		if err == nil {
			return nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("repair: %w", err)
		}
	}
}

// statements runs some, each by itself.
func (f *Field) statements(texts ...string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for _, text := range texts {
			if _, err := f.DB.ExecContext(ctx, text); err != nil {
				return err
			}
		}
		return nil
	}
}
