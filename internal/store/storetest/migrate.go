package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// migrateProperties get an empty database.
var migrateProperties = []property{
	{"an empty database has version 0", emptyHasNoVersion},
	{"everything else says that the schema is missing", emptyIsMissing},
	{"migrate reaches the newest version once", migrateOnce},
	{"ten at once all succeed and apply each version once", migrateTogether},
	{"down to 0 removes everything and up works again", migrateDownAndUp},
	{"down keeps the target", migrateDownToTarget},
	{"the printed statements do the same", migrateByHand},
	{"data survives a repeated migrate", migrateKeepsData},
}

// versions are 1 to the newest.
func versions(known int) []int {
	vs := make([]int, known)
	for i := range vs {
		vs[i] = i + 1
	}
	return vs
}

func (f *fixture) wantVersion(want int) (known int) {
	f.t.Helper()
	current, known, err := f.Store.SchemaVersion(f.t.Context())
	require.NoError(f.t, err)
	require.Positive(f.t, known)
	require.Equal(f.t, want, current)
	return known
}

func emptyHasNoVersion(_ *testing.T, f *fixture) { f.wantVersion(0) }

func emptyIsMissing(t *testing.T, f *fixture) {
	ctx := t.Context()
	m := filled(store.NewMessage{})
	_, err := f.Store.Insert(ctx, nil, &m)
	require.ErrorIs(t, err, message.ErrSchemaMissing)
	_, err = f.Store.InsertMany(ctx, nil, copies(2, m))
	require.ErrorIs(t, err, message.ErrSchemaMissing)
	_, err = f.Store.Register(ctx, store.WorkerInfo{Name: "w", Lease: time.Minute})
	require.ErrorIs(t, err, message.ErrSchemaMissing)
	_, err = f.Store.Cursor(store.CursorSpec{WorkerID: 1, Queue: "q"}).Claim(ctx, store.ClaimRequest{Number: 1, Limit: 1})
	require.ErrorIs(t, err, message.ErrSchemaMissing)
	_, err = f.Store.Get(ctx, 1)
	require.ErrorIs(t, err, message.ErrSchemaMissing)
	_, err = f.Store.List(ctx, store.ListQuery{Limit: 1})
	require.ErrorIs(t, err, message.ErrSchemaMissing)
	_, err = f.Store.Stats(ctx)
	require.ErrorIs(t, err, message.ErrSchemaMissing)
	_, err = f.Store.Rescue(ctx, 1)
	require.ErrorIs(t, err, message.ErrSchemaMissing)
	require.ErrorIs(t, f.Store.Replay(ctx, 1, store.Actor{}), message.ErrSchemaMissing)
}

func migrateOnce(t *testing.T, f *fixture) {
	known := f.wantVersion(0)
	applied, err := f.Store.Migrate(t.Context())
	require.NoError(t, err)
	require.Equal(t, versions(known), applied)
	f.wantVersion(known)
	applied, err = f.Store.Migrate(t.Context())
	require.NoError(t, err)
	require.Empty(t, applied, "a repeat is a no-op")
}

// jackc/tern#19 and riverqueue/river#503: several processes raced on making
// the table of versions.
func migrateTogether(t *testing.T, f *fixture) {
	const processes = 10
	stores := make([]store.Store, processes)
	for i := range stores {
		stores[i] = f.Reopen(t)
	}
	var (
		wg      sync.WaitGroup
		applied [processes][]int
		errs    [processes]error
	)
	for i, s := range stores {
		wg.Go(func() { applied[i], errs[i] = s.Migrate(t.Context()) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	all := slices.Concat(applied[:]...)
	slices.Sort(all)
	known := f.wantVersion(len(all))
	require.Equal(t, versions(known), all)
	f.put(store.NewMessage{})
}

func migrateDownAndUp(t *testing.T, f *fixture) {
	ctx := t.Context()
	for range 2 {
		applied, err := f.Store.Migrate(ctx)
		require.NoError(t, err)
		f.put(store.NewMessage{})
		removed, err := f.Store.MigrateDown(ctx, 0)
		require.NoError(t, err)
		slices.Reverse(removed)
		require.Equal(t, applied, removed, "newest first")
		f.wantVersion(0)
		_, err = f.Store.Get(ctx, 1)
		require.ErrorIs(t, err, message.ErrSchemaMissing)
	}
	_, err := f.Store.Migrate(ctx)
	require.NoError(t, err)
	f.put(store.NewMessage{})
	require.Equal(t, 1, f.total(), "nothing of before is left")
}

func migrateDownToTarget(t *testing.T, f *fixture) {
	ctx := t.Context()
	_, err := f.Store.Migrate(ctx)
	require.NoError(t, err)
	_, known, err := f.Store.SchemaVersion(ctx)
	require.NoError(t, err)
	id := f.put(store.NewMessage{})
	removed, err := f.Store.MigrateDown(ctx, known)
	require.NoError(t, err)
	require.Empty(t, removed)
	f.wantVersion(known)
	f.wantStatus(message.StatusPending, id)
}

func migrateByHand(t *testing.T, f *fixture) {
	ctx := t.Context()
	known := f.wantVersion(0)
	up, err := f.Store.MigrationSQL(0, known)
	require.NoError(t, err)
	_, err = f.DB.DB.ExecContext(ctx, up)
	require.NoError(t, err, up)
	f.wantVersion(known)
	f.put(store.NewMessage{})

	down, err := f.Store.MigrationSQL(known, 0)
	require.NoError(t, err)
	_, err = f.DB.DB.ExecContext(ctx, down)
	require.NoError(t, err, down)
	f.wantVersion(0)
	_, err = f.Store.Migrate(ctx)
	require.NoError(t, err)
	f.put(store.NewMessage{})

	_, err = f.Store.MigrationSQL(0, known+1)
	require.Error(t, err)
	_, err = f.Store.MigrationSQL(-1, known)
	require.Error(t, err)
}

func migrateKeepsData(t *testing.T, f *fixture) {
	_, err := f.Store.Migrate(t.Context())
	require.NoError(t, err)
	id := f.put(store.NewMessage{Payload: `{"n":1}`})
	_, err = f.Reopen(t).Migrate(t.Context())
	require.NoError(t, err)
	require.JSONEq(t, `{"n":1}`, f.get(id).Payload)
}
