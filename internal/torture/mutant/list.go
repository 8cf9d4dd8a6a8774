//go:build unix

package mutant

import (
	"time"

	"github.com/styxmq/styx/internal/torture"
	"github.com/styxmq/styx/internal/torture/check"
)

// Mutant is one seeded fault.
type Mutant struct {
	Name string
	// Says what is wrong with it.
	Says  string
	edits []edit
	// run are the settings that provoke it.
	run torture.Config
	// Breaks are the promises of which the checker must find one broken.
	Breaks []check.Promise
}

// edit replaces a text that stands exactly once in a file.
type edit struct{ file, old, new string }

const (
	claim  = "internal/store/postgres/statements.go"
	settle = "internal/store/postgres/settle.go"
	floor  = "internal/store/postgres/floor.go"
	cursor = "internal/store/postgres/cursor.go"
	bury   = "internal/store/postgres/reap.go"
	rescue = "internal/store/postgres/rescue.go"
	replay = "internal/store/postgres/operate.go"
	insert = "internal/store/postgres/producemany.go"
	ledger = "worker/ledger.go"
	opener = "client/postgres/open.go"
)

// early commits a while after the caller was told so.
const early = `if !mutant("acknowledged-early") {
			err = s.transact(ctx, work)
			break
		}
		var tx *sql.Tx
		if tx, err = s.sql.BeginTx(context.WithoutCancel(ctx), nil); err != nil {
			break
		}
		if err = work(tx); err != nil {
			_ = tx.Rollback()
			break
		}
		time.AfterFunc(time.Second, func() { _ = tx.Commit() })`

// load is what most mutants need: handlers that run across beats and leases.
func load(faults ...string) torture.Config {
	return torture.Config{
		Faults: append([]string{}, faults...), Duration: 6 * time.Second, Length: 3 * time.Second, Calm: 500 * time.Millisecond,
		Lease: time.Second, Rate: 60, Handler: 600 * time.Millisecond, Drain: 5 * time.Second, Backlog: 100, Daemons: -1,
	}
}

// quick is load with short handlers.
func quick(faults ...string) torture.Config {
	c := load(faults...)
	c.Handler, c.Rate, c.Backlog = 8*time.Millisecond, 200, 1000
	return c
}

// Mutants returns all.
func Mutants() []Mutant {
	dead := quick("kill-operators")
	dead.Poison = 0.2
	// Another worker, or a new one, would find what this one does not.
	alone := quick()
	alone.Workers, alone.Lease, alone.Drain = 1, 15*time.Second, 20*time.Second
	return []Mutant{
		{
			Name: "settle-without-token", Says: "a success is recorded whoever holds the message",
			edits: []edit{
				{settle, "AND m.status = 1 AND m.worker_id = $1", "AND m.status = 1 ` + unless(\"settle-without-token\", \"AND m.worker_id = $1\") + `"},
				{settle, "m.id, $2::bigint[])] = m.lease_token", "m.id, $2::bigint[])] ` + swap(\"settle-without-token\", \"= m.lease_token\", \"IS NOT NULL\") + `"},
			},
			run: load("zombies"), Breaks: []check.Promise{check.StaleSettle},
		},
		{
			Name: "claim-without-guard", Says: "a claim takes what is processing, and waits for locks",
			edits: []edit{
				{claim, "AND status = 0 ` + kind + ` AND lease_token", "AND ` + swap(\"claim-without-guard\", \"status = 0\", \"status >= 0\") + ` ` + kind + ` AND lease_token"},
				{claim, "` LIMIT %d FOR UPDATE SKIP LOCKED`, claimRows)", "` LIMIT %d FOR UPDATE ` + unless(\"claim-without-guard\", \"SKIP LOCKED\"), claimRows)"},
			},
			run: load(), Breaks: []check.Promise{check.TwoOwners, check.TokenReused},
		},
		{
			Name: "reaper-without-lease", Says: "a worker is dead at once",
			edits: []edit{
				{bury, "w.beat_at < clock_timestamp() - w.lease_ms * interval '1 ms'", "` + swap(\"reaper-without-lease\", \"w.beat_at < clock_timestamp() - w.lease_ms * interval '1 ms'\", \"true\") + `"},
			},
			run: load(), Breaks: []check.Promise{check.EarlyLoss},
		},
		{
			Name: "reaper-without-deadline", Says: "an attempt of a living worker has timed out at once",
			edits: []edit{
				{rescue, "const rescueText", "var rescueText"},
				{rescue, "const lostClaims", "var lostClaims"},
				{rescue, "WHERE c.deadline <= now() AND NOT EXISTS", "WHERE ` + swap(\"reaper-without-deadline\", \"c.deadline <= now()\", \"true\") + ` AND NOT EXISTS"},
				{rescue, "AND (NOT f.alive OR m.deadline <= clock_timestamp())", "` + unless(\"reaper-without-deadline\", \"AND (NOT f.alive OR m.deadline <= clock_timestamp())\") + `"},
			},
			run: load(), Breaks: []check.Promise{check.EarlyLoss},
		},
		{
			Name: "token-reset", Says: "a replay begins with token 0 again",
			edits: []edit{
				{replay, "SELECT d.message_id, d.lease_token, d.created_at, clock_timestamp()", "SELECT d.message_id, ` + swap(\"token-reset\", \"d.lease_token\", \"0\") + `, d.created_at, clock_timestamp()"},
			},
			run: dead, Breaks: []check.Promise{check.TokenReused},
		},
		{
			Name: "acknowledged-early", Says: "an enqueue returns before its commit",
			edits: []edit{
				{insert, "err = s.transact(ctx, work)", early},
			},
			run: quick("kill-producers"), Breaks: []check.Promise{check.Lost},
		},
		{
			Name: "commit-not-awaited", Says: "connections set synchronous_commit=off: a commit is acknowledged before it is on the disk",
			edits: []edit{
				{opener, "cfg.OnPgError = closeReadOnly(cfg.OnPgError)", "cfg.OnPgError = closeReadOnly(cfg.OnPgError)\n\tif mutant(\"commit-not-awaited\") {\n\t\tcfg.RuntimeParams[\"synchronous_commit\"] = \"off\"\n\t}"},
			},
			run: quick("crash"), Breaks: []check.Promise{check.Lost},
		},
		{
			Name: "archive-dropped", Says: "a success leaves no row",
			edits: []edit{
				{settle, "FROM gone g`\n}", "FROM gone g` + swap(\"archive-dropped\", \"\", \" WHERE g.id % 50 <> 0\")\n}"},
			},
			run: quick(), Breaks: []check.Promise{check.Lost},
		},
		{
			Name: "floor-without-rescan", Says: "a claim never looks below where it has been",
			edits: []edit{
				{cursor, "if full {\n\t\tclear(c.used[:])", "if full && !mutant(\"floor-without-rescan\") {\n\t\tclear(c.used[:])"},
				{floor, "begin(hard, full bool) T {", "begin(hard, full bool) T {\n\tif mutant(\"floor-without-rescan\") && f.pos != nil {\n\t\treturn *f.pos\n\t}"},
			},
			run: alone, Breaks: []check.Promise{check.Stuck},
		},
		{
			Name: "beat-without-claims", Says: "a beat names none of the worker's claims",
			edits: []edit{
				{ledger, "numbers = make([]int64, 0, len(l.open)", "if mutant(\"beat-without-claims\") {\n\t\treturn nil, l.last\n\t}\n\tnumbers = make([]int64, 0, len(l.open)"},
			},
			run: load(), Breaks: []check.Promise{check.TwoOwners},
		},
	}
}
