// Package storetest proves that an implementation of store.Store keeps the
// protocol of package store: Run is the one suite which every engine passes.
// Faulty is a store that fails on demand, for the tests of what is built on
// top.
//
// It is imported by tests only.
package storetest

import (
	"slices"
	"testing"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/internal/store"
)

// Opened is an empty database, not migrated yet, for one property.
type Opened struct {
	Store store.Store
	DB    *bun.DB
	// Prefix stands before the name of a table: the quoted schema with its
	// dot, or styx_.
	Prefix string
	// Reopen returns another Store on the same data, over a pool of its own
	// which lives until the end of the test.
	Reopen func(t *testing.T) store.Store
	// Engine says what differs between the engines: PostgreSQL or SQLite.
	Engine Engine
}

// property is one promise of the protocol, proved on a database of its own
// which is migrated already.
type property struct {
	name  string
	check func(t *testing.T, f *fixture)
}

// Run proves every property, each as a subtest area/property on a database
// that open makes for it, or those of some areas. Properties run in parallel,
// so open is called from several goroutines. Subtests of more than a few
// seconds are left out with -short.
func Run(t *testing.T, open func(t *testing.T) Opened, only ...string) {
	t.Helper()
	selected := func(area string) bool { return len(only) == 0 || slices.Contains(only, area) }
	t.Run("migrate", func(t *testing.T) {
		t.Parallel()
		if !selected("migrate") {
			return
		}
		for _, p := range migrateProperties {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				p.check(t, &fixture{Opened: open(t), t: t})
			})
		}
	})
	areas := []struct {
		name       string
		properties []property
	}{
		{"enqueue", enqueueProperties},
		{"text", textProperties},
		{"batch", batchProperties},
		{"key", keyProperties},
		{"transaction", transactionProperties},
		{"claim", claimProperties},
		{"order", orderProperties},
		{"settle", settleProperties},
		{"outcome", outcomeProperties},
		{"attempt", attemptProperties},
		{"beat", beatProperties},
		{"queues", queuesProperties},
		{"orphan", orphanProperties},
		{"reap", reapProperties},
		{"race", raceProperties},
		{"counter", counterProperties},
		{"suspect", suspectProperties},
		{"expire", expireProperties},
		{"letter", letterProperties},
		{"replay", replayProperties},
		{"trace", traceProperties},
		{"purge", purgeProperties},
		{"list", listProperties},
		{"preview", previewProperties},
		{"stats", statsProperties},
		{"retain", retainProperties},
		{"gauge", gaugeProperties},
		{"remote", remoteProperties},
		{"remotesettle", remoteSettleProperties},
		{"pause", pauseProperties},
		{"audit", auditProperties},
		{"condition", conditionProperties},
		{"wake", wakeProperties},
	}
	for _, area := range areas {
		if !selected(area.name) {
			continue
		}
		t.Run(area.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range area.properties {
				t.Run(p.name, func(t *testing.T) {
					t.Parallel()
					p.check(t, begin(t, open))
				})
			}
		})
	}
}
