package worker_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/client/sqlite"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper"
	"github.com/styxmq/styx/worker"
)

// countVariable tells a child how many messages to enqueue.
const countVariable = "STYX_WORKER_TEST_COUNT"

// childProduce enqueues messages one by one, at most 200 a second, and prints
// the id of each that was acknowledged. It ends before its time when its input
// does.
func childProduce() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := openURL(ctx, os.Getenv(schemaVariable), os.Getenv(urlVariable))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	c, err := client.New(db, client.Config{Schema: os.Getenv(schemaVariable)})
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(os.Getenv(countVariable))
	if err != nil {
		return err
	}
	go func() { // lives as long as the process
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		stop()
	}()
	tick := time.NewTicker(time.Second / 200)
	defer tick.Stop()
	for i := range count {
		m, err := c.Enqueue(ctx, job{N: i}, nil)
		if err != nil {
			return err
		}
		fmt.Println(m.ID)
		<-tick.C
	}
	return nil
}

// Several processes share one file while somebody reads a snapshot for long:
// a producer, two workers, a reaper, and this one, which lists messages. No
// call is refused because the file is busy, nothing runs twice. Here with 200
// messages, in full with 6,000, which takes half a minute.
// Reported as rails/solid_queue#385, rails/solid_queue#309 and
// David-Crty/databasement#233.
func TestProofProcessesShareAFile(t *testing.T) {
	t.Parallel()
	r := newRig(t, testdb.SQLite(t))
	count := 200
	if full {
		count = 6000
	}
	reader, err := r.db.Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, reader.Close()) }()
	_, err = reader.ExecContext(t.Context(), "BEGIN DEFERRED")
	require.NoError(t, err)
	var none int
	require.NoError(t, reader.QueryRowContext(t.Context(), "SELECT count(*) FROM styx_messages").Scan(&none))

	rp, err := reaper.New(r.open(), reaper.Config{Rescue: "@every 100ms", Logger: discard()})
	require.NoError(t, err)
	reaping, stopReaping := context.WithCancel(t.Context())
	reaped := make(chan error, 1)
	go func() { reaped <- rp.Run(reaping) }()
	workers := []*child{r.spawn("work", slotsVariable+"=8"), r.spawn("work", slotsVariable+"=8")}
	producer := r.spawn("produce", countVariable+"="+strconv.Itoa(count))
	var ids []string
	for line := range producer.lines {
		ids = append(ids, line)
		if len(ids)%20 == 0 {
			_, err := r.client.List(t.Context(), client.ListOptions{Limit: 100, Descending: true})
			require.NoError(t, err)
			_, err = r.client.Stats(t.Context())
			require.NoError(t, err)
		}
	}
	require.NoError(t, producer.wait(), "an enqueue was refused")
	require.Len(t, ids, count)
	until(t, "all is done", func() bool { return r.counted(message.StatusSucceeded) == count })
	_, err = reader.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	ran := map[string]int{}
	for _, w := range workers {
		require.NoError(t, w.in.Close())
		w.signal(t, syscall.SIGTERM)
		for _, line := range w.rest() {
			ran[strings.Fields(line)[1]]++
		}
		require.NoError(t, w.wait())
	}
	stopReaping()
	require.NoError(t, <-reaped)
	require.Len(t, ran, count)
	for _, id := range ids {
		require.Equal(t, 1, ran[id], id)
	}
	status := rp.Status()
	require.Zero(t, status.Rescue.Counts.Messages(), "nobody was taken for dead")
	require.Zero(t, status.Rescue.Failures+status.Sweep.Failures+status.Maintain.Failures, "%+v", status)
}

// On a full disk an enqueue is refused with an error that says so, readers go
// on, a worker survives, and what was acknowledged is there when there is room
// again.
// Reported as rails/solid_queue#385.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t, testdb.SQLite(t))
	pages := r.count("PRAGMA page_count")
	small, err := sqlite.Open(t.Context(), "file:"+filepath.ToSlash(r.db.URL)+"?_pragma=max_page_count("+strconv.Itoa(pages+20)+")")
	require.NoError(t, err)
	defer func() { require.NoError(t, small.Close()) }()
	c, err := client.New(small, client.Config{Logger: discard()})
	require.NoError(t, err)
	var acknowledged []int64
	for {
		m, err := c.Enqueue(t.Context(), job{Text: strings.Repeat("x", 500)}, nil)
		if err != nil {
			require.ErrorIs(t, err, client.ErrUnavailable)
			break
		}
		acknowledged = append(acknowledged, m.ID)
	}
	require.NotEmpty(t, acknowledged)
	page, err := c.List(t.Context(), client.ListOptions{Limit: 1000})
	require.NoError(t, err)
	require.Len(t, page.Messages, len(acknowledged))

	w, err := worker.New(small, worker.Config{Logger: discard(), Concurrency: 4})
	require.NoError(t, err)
	var ran tally
	worker.Handle(w, ran.handle, nil)
	r.start(w) // it may do what needs no room, and tells the rest
	rest, _ := r.worker(worker.Config{})
	worker.Handle(rest, ran.handle, nil)
	r.start(rest) // where there is room
	r.wait(message.StatusSucceeded, acknowledged...)
	require.Equal(t, len(acknowledged), r.count("SELECT count(*) FROM styx_all_messages"))
}
