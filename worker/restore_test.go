package worker_test

import (
	"bytes"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/internal/testdb/server"
	"github.com/styxmq/styx/worker"
)

// copied returns the rig on a copy of its database: on PostgreSQL by pg_dump
// into another cluster, whose transaction ids are smaller, on SQLite in
// another file.
func (r *rig) copied() *rig {
	r.t.Helper()
	if r.db.Schema == "" {
		path := filepath.Join(r.t.TempDir(), "copy.db")
		_, err := r.db.ExecContext(r.t.Context(), "VACUUM INTO ?", path)
		require.NoError(r.t, err)
		return r.elsewhere(path)
	}
	bin, err := server.FindBinaries(r.t.Context())
	if err != nil {
		r.t.Skip("there is no second server to be had: ", err)
	}
	dump, err := exec.LookPath(filepath.Join(bin, "pg_dump"))
	if err != nil {
		r.t.Skip("these binaries of PostgreSQL have no pg_dump")
	}
	psql, err := exec.LookPath(filepath.Join(bin, "psql"))
	if err != nil {
		r.t.Skip("these binaries of PostgreSQL have no psql")
	}
	other, err := server.Start(r.t.Context(), server.Config{BinDir: bin, Settings: []string{"fsync=off"}})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, other.Stop()) })
	var text, failed bytes.Buffer
	cmd := exec.CommandContext(r.t.Context(), dump, "--no-owner", "--schema="+r.db.Schema, "--dbname="+testdb.URL())
	cmd.Stdout, cmd.Stderr = &text, &failed
	if err := cmd.Run(); err != nil && bytes.Contains(failed.Bytes(), []byte("server version mismatch")) {
		r.t.Skip("this pg_dump is older than the server")
	} else if err != nil {
		require.NoError(r.t, err, failed.String())
	}
	cmd = exec.CommandContext(r.t.Context(), psql, "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--dbname="+other.URL())
	cmd.Stdin, cmd.Stderr = &text, &failed
	require.NoError(r.t, cmd.Run(), failed.String())
	return r.elsewhere(other.URL())
}

func (r *rig) elsewhere(url string) *rig {
	r.t.Helper()
	db, err := openURL(r.t.Context(), r.db.Schema, url)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, db.Close()) })
	return newRig(r.t, testdb.DB{DB: db, Schema: r.db.Schema, URL: url})
}

// A database that was restored elsewhere goes on where the backup was made:
// nothing depends on transaction ids, connections or positions of the old one.
// Reported as ThreeDotsLabs/watermill#576.
func TestRestoredDatabaseGoesOn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, old *rig) {
		pending := old.jobs(20, nil)
		dead := old.enqueue(job{Text: "dead"}, &client.EnqueueOptions{Queue: "dead"})
		done := old.enqueue(job{Text: "done"}, &client.EnqueueOptions{Queue: "done", IdempotencyKey: "k"})
		held := old.enqueue(job{Text: "held"}, in("held"))
		later := old.enqueue(job{}, &client.EnqueueOptions{Delay: 3 * time.Second})
		gone, err := old.store.Register(t.Context(), store.WorkerInfo{Name: "gone", Lease: time.Second})
		require.NoError(t, err)
		for i, queue := range []string{"dead", "done", "held"} {
			cursor := old.store.Cursor(store.CursorSpec{WorkerID: gone, Queue: queue, Timeout: time.Hour, Lease: time.Second})
			batch, err := cursor.Claim(t.Context(), store.ClaimRequest{Number: int64(i + 1), Limit: 10})
			require.NoError(t, err)
			require.Len(t, batch.Messages, 1)
			s := store.Settlement{ID: batch.Messages[0].ID, Token: batch.Messages[0].LeaseToken, Verb: store.Succeed, Keyed: queue == "done"}
			switch queue {
			case "held":
				continue
			case "dead":
				s.Verb, s.Failure = store.Bury, broken()
			}
			_, err = old.store.Settle(t.Context(), gone, []store.Settlement{s}, nil)
			require.NoError(t, err)
		}

		r := old.copied()
		applied, err := r.client.Migrations().Up(t.Context())
		require.NoError(t, err)
		require.Empty(t, applied)
		r.reaper()
		w, err := worker.New(r.db.DB, worker.Config{
			Schema: r.db.Schema, Queues: []worker.Queue{{Name: "default"}, {Name: "dead"}, {Name: "held"}}, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		var ran tally
		worker.Handle(w, ran.handle, nil)
		r.start(w)
		r.wait(message.StatusSucceeded, append(pending, held, later)...)
		require.Equal(t, 1, r.get(held).WorkerLosses)
		require.NoError(t, r.client.DeadLetters().Replay(t.Context(), dead, nil))
		r.wait(message.StatusSucceeded, dead)
		var duplicate *message.DuplicateError
		_, err = r.client.Enqueue(t.Context(), job{Text: "done"}, &client.EnqueueOptions{Queue: "done", IdempotencyKey: "k"})
		require.ErrorAs(t, err, &duplicate)
		require.Equal(t, done, duplicate.ID)
		next := r.enqueue(job{}, nil)
		require.Greater(t, next, later, "an id never comes back")
		r.wait(message.StatusSucceeded, next)
		for _, id := range append(pending, held, later, dead, next) {
			require.Equal(t, 1, ran.of(id))
		}
	})
}
