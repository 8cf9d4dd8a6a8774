package worker_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/internal/testdb/server"
	"github.com/styxmq/styx/worker"
)

// smallDisk mounts a disk of so many megabytes, or skips the test where that
// is not permitted, which it is to root outside most containers only.
func smallDisk(t *testing.T, megabytes string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "styx-disk-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755,size="+megabytes+"m"); err != nil {
		t.Skip("mount a small disk: ", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fill takes all room that is left, until the returned function gives it back.
func fill(t *testing.T, dir string) (release func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for block := make([]byte, 1<<16); err == nil; {
		_, err = f.Write(block)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	return func() { require.NoError(t, os.Remove(f.Name())) }
}

// The disk of the data, or that of the write-ahead log, is full while a
// producer and a worker are at work: enqueues are refused with an error that
// says so, the worker survives, and with room again everything that was
// acknowledged is done. A full disk of the log ends the server; it is started
// again.
func TestFullDiskOfTheServer(t *testing.T) {
	t.Parallel()
	if _, err := server.FindBinaries(t.Context()); errors.Is(err, server.ErrNoBinaries) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	settings := []string{"max_wal_size=32MB", "min_wal_size=32MB", "wal_init_zero=off", "autovacuum=off", "shared_buffers=16MB"}
	for name, start := range map[string]func(t *testing.T) (*server.Server, string){
		"data": func(t *testing.T) (*server.Server, string) {
			disk, log := smallDisk(t, "96"), t.TempDir()
			return startServer(t, server.Config{Settings: settings, Parent: disk, WALParent: log}), disk
		},
		"log": func(t *testing.T) (*server.Server, string) {
			disk := smallDisk(t, "80")
			return startServer(t, server.Config{Settings: settings, WALParent: disk}), disk
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, disk := start(t)
			db, err := postgres.Open(t.Context(), srv.URL())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			fullDisk(t, newRig(t, testdb.DB{DB: db, Schema: "styx", URL: srv.URL()}), srv, disk)
		})
	}
}

func startServer(t *testing.T, cfg server.Config) *server.Server {
	t.Helper()
	// Its user must reach what belongs to the test.
	for dir := cfg.WALParent; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // see above
	}
	srv, err := server.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Stop()) })
	return srv
}

func fullDisk(t *testing.T, r *rig, srv *server.Server, disk string) {
	t.Helper()
	w, _ := r.worker(worker.Config{Lease: time.Minute, RetryPolicy: soon, Concurrency: 4, PollInterval: 100 * time.Millisecond})
	var (
		ran  tally
		gate sync.RWMutex
	)
	worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
		gate.RLock()
		defer gate.RUnlock()
		ran.add(m.ID)
		return nil
	}, nil)
	run := r.start(w)

	var acknowledged []int64
	noise := make([]byte, 300_000) // so that it cannot be compressed
	enqueue := func() error {
		_, _ = rand.Read(noise)
		m, err := r.client.Enqueue(t.Context(), job{Text: base64.StdEncoding.EncodeToString(noise)}, nil)
		if err == nil {
			acknowledged = append(acknowledged, m.ID)
		}
		return err
	}
	for range 5 {
		require.NoError(t, enqueue())
	}
	r.wait(message.StatusSucceeded, acknowledged...)

	gate.Lock() // some are held while the disk is full
	for range 5 {
		require.NoError(t, enqueue())
	}
	release := fill(t, disk)
	var err error
	for n := 0; err == nil; n++ {
		require.Less(t, n, 1000, "the disk is never full")
		err = enqueue()
	}
	require.ErrorIs(t, err, client.ErrUnavailable)
	gate.Unlock()
	select {
	case <-run.done:
		require.NoError(t, run.err, "the worker has ended")
	case <-time.After(time.Second): // it goes on as well as it can
	}
	require.ErrorIs(t, enqueue(), client.ErrUnavailable)

	release()
	until(t, "the server is back", func() bool {
		return srv.Resume(t.Context()) == nil && enqueue() == nil
	})
	stop := (&failover{rig: r}).reapingThrough()
	r.wait(message.StatusSucceeded, acknowledged...)
	stop()
	for _, id := range acknowledged {
		require.NotZero(t, ran.of(id))
	}
	require.NoError(t, run.stop())
}
