package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// job is one message to enqueue.
type job struct {
	payload payload
	queue   string // empty for the system's default
	delay   time.Duration
}

// crew says what a worker does.
type crew struct {
	queues      []string // nil for the system's default
	concurrency int      // of each queue; 0 for the system's default
	crowd       bool     // whether it is one of many processes
	maintain    bool     // whether to run the maintenance that a deployment needs once
	handle      func(p payload, attempt int) error
}

// system is a queue in use.
type system interface {
	// prepare makes the schema in an empty database.
	prepare(ctx context.Context) error
	enqueue(ctx context.Context, j job) error
	// enqueueMany stores all of them, in the fastest way that the system has.
	enqueueMany(ctx context.Context, jobs []job) error
	// work starts a worker. Calling stop ends it once the outcome of every
	// message that it has handled is recorded.
	work(ctx context.Context, c crew) (stop stopFunc, err error)
	// done counts the messages that are recorded as succeeded.
	done(ctx context.Context, queues []string) (int, error)
	close() error
}

// stopFunc ends a worker and returns when its last outcome was recorded, so
// that a slow end does not count.
type stopFunc func(ctx context.Context) (recorded time.Time, err error)

// engine is what keeps a system's messages.
type engine string

const (
	onPostgres engine = "postgres"
	onRedis    engine = "redis"
	onSQLite   engine = "sqlite"
)

// entry is a system that can be measured.
type entry struct {
	name   string
	engine engine
	// concurrency is the number of handlers at once; 0 leaves it to the system.
	concurrency int
	// share is how many times fewer messages it gets where a slow system
	// would take too long; 0 is 1.
	share int
	// settings tell people how it is set up.
	settings string
	// scan is an analytical query over all messages.
	scan string
	// open connects; conns is the largest number of connections to use.
	open func(ctx context.Context, place string, conns int) (system, error)
}

const (
	retryDelay      = 100 * time.Millisecond // of those that fail once, for all systems
	poolConns       = 20
	bestConcurrency = 2000
)

var entries = []entry{
	{
		name: "styx", engine: onPostgres, concurrency: bestConcurrency, open: openStyx,
		settings: "Concurrency 2000, a reaper beside the worker; Ahead 2000 in each of many processes", scan: styxScan,
	},
	{
		name: "styx-default", engine: onPostgres, open: openStyx,
		settings: "defaults (Concurrency 10), a reaper beside the worker", scan: styxScan,
	},
	{
		name: "river", engine: onPostgres, concurrency: bestConcurrency, open: openRiverTuned,
		settings: "v0.51.2, riverpgxv5, MaxWorkers 2000, FetchCooldown 2 ms, FetchPollInterval 20 ms, bulk by InsertManyFast (COPY)",
		scan:     riverScan,
	},
	{
		name: "river-default", engine: onPostgres, concurrency: riverDefaultWorkers, open: openRiverDefault,
		settings: "v0.51.2, riverpgxv5, MaxWorkers 100 as in its guide, everything else default; a tenth of the messages",
		scan:     riverScan, share: 10,
	},
	{
		name: "asynq", engine: onRedis, concurrency: asynqConcurrency, open: openAsynq,
		settings: fmt.Sprintf("v0.26.0, Concurrency %d, Redis with appendonly everysec; it has no bulk enqueue: 16 goroutines", asynqConcurrency),
	},
	{
		name: "asynq-default", engine: onRedis, open: openAsynqDefault,
		settings: "v0.26.0, defaults (Concurrency is the number of processors), Redis with appendonly everysec",
	},
	{
		name: "floor", engine: onPostgres, concurrency: 1, open: openFloor,
		settings: "the claim, settle and insert of Styx as bare SQL through pgx, 1 claimer, 1 settler, fenced, with archive", scan: styxScan,
	},
	{
		name: "styx-sqlite", engine: onSQLite, concurrency: bestConcurrency, open: openStyxSQLite,
		settings: "SQLite file, synchronous=FULL, Concurrency 2000, a reaper beside the worker",
	},
}

func (e entry) divisor() int { return max(1, e.share) }

func systemNames() []string {
	var names []string
	for _, e := range entries {
		names = append(names, e.name)
	}
	return names
}

func lookUp(name string) (entry, error) {
	i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
	if i < 0 {
		return entry{}, fmt.Errorf("no such system: %q", name)
	}
	return entries[i], nil
}

// queueNames names n queues; one queue is the default one.
func queueNames(n int) []string {
	if n <= 1 {
		return nil
	}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("queue_%04d", i)
	}
	return names
}

// queueOf is the queue of the message with a number.
func queueOf(names []string, num int) string {
	if len(names) == 0 {
		return ""
	}
	return names[num%len(names)]
}
