package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// Faulty passes every call on to another store and fails on demand. Methods
// are named as in the interfaces of package store; those of a cursor are
// Claim, those of a pulse Beat (Wake and Close never fail). It is safe for
// concurrent use, and so are its switches; hooks are called from the
// goroutines of the callers.
type Faulty struct {
	under store.Store

	mu            sync.Mutex
	before, after func(method string) error
	outage        chan struct{} // closed while the database is away
	down          bool
	calls         map[string]int
}

var (
	_ store.Store  = (*Faulty)(nil)
	_ store.Cursor = (*faultyCursor)(nil)
	_ store.Pulse  = (*faultyPulse)(nil)
)

// NewFaulty returns a store which works as the given one until told otherwise.
func NewFaulty(under store.Store) *Faulty {
	return &Faulty{under: under, outage: make(chan struct{}), calls: make(map[string]int)}
}

// Before sets what is asked before each call: an error is returned to the
// caller, and the call never reaches the database. Nil removes it.
func (f *Faulty) Before(hook func(method string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = hook
}

// After sets what is asked after each call that succeeded: an error is
// returned instead of the reply, which is lost although the call was carried
// out. Nil removes it.
func (f *Faulty) After(hook func(method string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = hook
}

// Down begins an outage: every call returns store.ErrUnavailable, those that
// are under way too, whether they were carried out or not, and listeners lose
// their connection. A second Down changes nothing.
func (f *Faulty) Down() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.down {
		f.down = true
		close(f.outage)
	}
}

// Up ends the outage. A second Up changes nothing.
func (f *Faulty) Up() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		f.down = false
		f.outage = make(chan struct{})
	}
}

// Calls returns how often a method was called, refused calls included.
func (f *Faulty) Calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

func (f *Faulty) enter(method string) error {
	f.mu.Lock()
	f.calls[method]++
	hook, down := f.before, f.down
	f.mu.Unlock()
	if down {
		return store.ErrUnavailable
	}
	if hook != nil {
		return hook(method)
	}
	return nil
}

func (f *Faulty) leave(method string) error {
	f.mu.Lock()
	hook, down := f.after, f.down
	f.mu.Unlock()
	if down {
		return store.ErrUnavailable
	}
	if hook != nil {
		return hook(method)
	}
	return nil
}

// run makes a call that returns nothing but an error.
func (f *Faulty) run(method string, call func() error) error {
	_, err := reply(f, method, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// reply makes a call that returns one value.
func reply[T any](f *Faulty, method string, call func() (T, error)) (T, error) {
	var none T
	if err := f.enter(method); err != nil {
		return none, err
	}
	v, err := call()
	if err != nil {
		return v, err
	}
	if err := f.leave(method); err != nil {
		return none, err
	}
	return v, nil
}

// replies makes a call that returns two values.
func replies[T, U any](f *Faulty, method string, call func() (T, U, error)) (T, U, error) {
	type pair struct {
		t T
		u U
	}
	p, err := reply(f, method, func() (pair, error) {
		t, u, err := call()
		return pair{t, u}, err
	})
	return p.t, p.u, err
}

// Migrate passes the call on.
func (f *Faulty) Migrate(ctx context.Context) ([]int, error) {
	return reply(f, "Migrate", func() ([]int, error) { return f.under.Migrate(ctx) })
}

// MigrateDown passes the call on.
func (f *Faulty) MigrateDown(ctx context.Context, target int) ([]int, error) {
	return reply(f, "MigrateDown", func() ([]int, error) { return f.under.MigrateDown(ctx, target) })
}

// SchemaVersion passes the call on.
func (f *Faulty) SchemaVersion(ctx context.Context) (current, known int, err error) {
	return replies(f, "SchemaVersion", func() (int, int, error) { return f.under.SchemaVersion(ctx) })
}

// MigrationSQL passes the call on; it needs no database and never fails on
// demand.
func (f *Faulty) MigrationSQL(from, to int) (string, error) { return f.under.MigrationSQL(from, to) }

// Insert passes the call on.
func (f *Faulty) Insert(ctx context.Context, conn bun.IConn, m *store.NewMessage) (store.Inserted, error) {
	return reply(f, "Insert", func() (store.Inserted, error) { return f.under.Insert(ctx, conn, m) })
}

// InsertMany passes the call on.
func (f *Faulty) InsertMany(ctx context.Context, conn bun.IConn, ms []store.NewMessage) ([]store.Inserted, error) {
	return reply(f, "InsertMany", func() ([]store.Inserted, error) { return f.under.InsertMany(ctx, conn, ms) })
}

// Register passes the call on.
func (f *Faulty) Register(ctx context.Context, w store.WorkerInfo) (int64, error) {
	return reply(f, "Register", func() (int64, error) { return f.under.Register(ctx, w) })
}

// Unregister passes the call on.
func (f *Faulty) Unregister(ctx context.Context, workerID int64) error {
	return f.run("Unregister", func() error { return f.under.Unregister(ctx, workerID) })
}

// Pulse passes the call on and wraps the pulse.
func (f *Faulty) Pulse(ctx context.Context) (store.Pulse, error) {
	if err := f.enter("Pulse"); err != nil {
		return nil, err
	}
	p, err := f.under.Pulse(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.leave("Pulse"); err != nil {
		return nil, errors.Join(err, p.Close()) // else nobody could close it
	}
	return &faultyPulse{f: f, under: p}, nil
}

// Cursor wraps a cursor.
func (f *Faulty) Cursor(spec store.CursorSpec) store.Cursor {
	return &faultyCursor{f: f, under: f.under.Cursor(spec)}
}

// Settle passes the call on.
func (f *Faulty) Settle(ctx context.Context, workerID int64, batch []store.Settlement, done []int64) ([]error, error) {
	return reply(f, "Settle", func() ([]error, error) { return f.under.Settle(ctx, workerID, batch, done) })
}

// SettleTx passes the call on.
func (f *Faulty) SettleTx(ctx context.Context, conn bun.IConn, workerID int64, s store.Settlement) error {
	return f.run("SettleTx", func() error { return f.under.SettleTx(ctx, conn, workerID, s) })
}

// Settled passes the call on.
func (f *Faulty) Settled(ctx context.Context, id, token int64) (bool, error) {
	return reply(f, "Settled", func() (bool, error) { return f.under.Settled(ctx, id, token) })
}

// Extend passes the call on.
func (f *Faulty) Extend(ctx context.Context, workerID, id, token int64, d time.Duration) (time.Time, error) {
	return reply(f, "Extend", func() (time.Time, error) { return f.under.Extend(ctx, workerID, id, token, d) })
}

// Lost passes the call on.
func (f *Faulty) Lost(ctx context.Context, workerID int64, held []store.Lease) ([]store.Lease, error) {
	return reply(f, "Lost", func() ([]store.Lease, error) { return f.under.Lost(ctx, workerID, held) })
}

// Listen passes the call on; Down ends it.
func (f *Faulty) Listen(ctx context.Context, wake func(queue string)) error {
	if err := f.enter("Listen"); err != nil {
		return err
	}
	f.mu.Lock()
	outage := f.outage
	f.mu.Unlock()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-outage:
			cancel(store.ErrUnavailable)
		case <-stopped:
		}
	}()
	err := f.under.Listen(inner, wake)
	close(stopped)
	<-watching
	if ctx.Err() == nil && errors.Is(context.Cause(inner), store.ErrUnavailable) {
		return store.ErrUnavailable
	}
	return err
}

// SetIdle passes the call on.
func (f *Faulty) SetIdle(ctx context.Context, workerID int64, queue string, idle bool) error {
	return f.run("SetIdle", func() error { return f.under.SetIdle(ctx, workerID, queue, idle) })
}

// Get passes the call on.
func (f *Faulty) Get(ctx context.Context, id int64) (message.Message, error) {
	return reply(f, "Get", func() (message.Message, error) { return f.under.Get(ctx, id) })
}

// List passes the call on.
func (f *Faulty) List(ctx context.Context, q store.ListQuery) (store.ListPage, error) {
	return reply(f, "List", func() (store.ListPage, error) { return f.under.List(ctx, q) })
}

// Attempts passes the call on.
func (f *Faulty) Attempts(ctx context.Context, id int64, limit int) ([]message.Attempt, error) {
	return reply(f, "Attempts", func() ([]message.Attempt, error) { return f.under.Attempts(ctx, id, limit) })
}

// Stats passes the call on.
func (f *Faulty) Stats(ctx context.Context) ([]store.QueueStats, error) {
	return reply(f, "Stats", func() ([]store.QueueStats, error) { return f.under.Stats(ctx) })
}

// Letters passes the call on.
func (f *Faulty) Letters(ctx context.Context, q store.LetterQuery) ([]message.DeadLetter, error) {
	return reply(f, "Letters", func() ([]message.DeadLetter, error) { return f.under.Letters(ctx, q) })
}

// Letter passes the call on.
func (f *Faulty) Letter(ctx context.Context, id int64) (message.DeadLetter, error) {
	return reply(f, "Letter", func() (message.DeadLetter, error) { return f.under.Letter(ctx, id) })
}

// Cancel passes the call on.
func (f *Faulty) Cancel(ctx context.Context, id int64, by store.Actor) error {
	return f.run("Cancel", func() error { return f.under.Cancel(ctx, id, by) })
}

// Replay passes the call on.
func (f *Faulty) Replay(ctx context.Context, id int64, by store.Actor) error {
	return f.run("Replay", func() error { return f.under.Replay(ctx, id, by) })
}

// Resolve passes the call on.
func (f *Faulty) Resolve(ctx context.Context, id int64, by store.Actor) error {
	return f.run("Resolve", func() error { return f.under.Resolve(ctx, id, by) })
}

// Purge passes the call on.
func (f *Faulty) Purge(ctx context.Context, q store.PurgeQuery, by store.Actor) (int, error) {
	return reply(f, "Purge", func() (int, error) { return f.under.Purge(ctx, q, by) })
}

// BuryWorkers passes the call on.
func (f *Faulty) BuryWorkers(ctx context.Context) ([]int64, error) {
	return reply(f, "BuryWorkers", func() ([]int64, error) { return f.under.BuryWorkers(ctx) })
}

// Rescue passes the call on.
func (f *Faulty) Rescue(ctx context.Context, limit int) ([]store.Rescued, error) {
	return reply(f, "Rescue", func() ([]store.Rescued, error) { return f.under.Rescue(ctx, limit) })
}

// Sweep passes the call on.
func (f *Faulty) Sweep(ctx context.Context, after int64, limit int) ([]store.Rescued, int64, error) {
	return replies(f, "Sweep", func() ([]store.Rescued, int64, error) { return f.under.Sweep(ctx, after, limit) })
}

// Expire passes the call on.
func (f *Faulty) Expire(ctx context.Context, limit int) ([]store.Rescued, error) {
	return reply(f, "Expire", func() ([]store.Rescued, error) { return f.under.Expire(ctx, limit) })
}

// Prepare passes the call on.
func (f *Faulty) Prepare(ctx context.Context) error {
	return f.run("Prepare", func() error { return f.under.Prepare(ctx) })
}

// Retain passes the call on.
func (f *Faulty) Retain(ctx context.Context, r store.Retention) (store.Retained, bool, error) {
	return replies(f, "Retain", func() (store.Retained, bool, error) { return f.under.Retain(ctx, r) })
}

type faultyCursor struct {
	f     *Faulty
	under store.Cursor
}

func (c *faultyCursor) Claim(ctx context.Context, r store.ClaimRequest) (store.Batch, error) {
	b, err := reply(c.f, "Claim", func() (store.Batch, error) { return c.under.Claim(ctx, r) })
	if err != nil {
		b.NextDue = -1
	}
	return b, err
}

func (c *faultyCursor) Wake() { c.under.Wake() }

type faultyPulse struct {
	f     *Faulty
	under store.Pulse
}

func (p *faultyPulse) Beat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	return reply(p.f, "Beat", func() (store.BeatReply, error) { return p.under.Beat(ctx, b) })
}

func (p *faultyPulse) Close() error { return p.under.Close() }
