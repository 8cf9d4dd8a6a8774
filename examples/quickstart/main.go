// Quickstart shows in a few seconds what becomes of messages: on SQLite in a
// temporary folder or, with DATABASE_URL set, in a PostgreSQL schema of its own.
//
//	go run ./examples/quickstart
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/client/sqlite"
	"github.com/styxmq/styx/reaper"
	"github.com/styxmq/styx/worker"
)

// Mail is a payload: a type that names its kind.
type Mail struct{ To string }

func (Mail) Kind() string { return "mail" }

var doomed = os.Getenv("QUICKSTART_DOOMED") // set in the process that will be killed

// send handles this kind. What it returns decides what becomes of the message.
func send(_ context.Context, m *worker.Message[Mail]) error {
	switch to := m.Payload.To; {
	case doomed != "":
		must(0, must(os.FindProcess(os.Getpid())).Kill()) // SIGKILL: no time to give the message back
		select {}
	case to == "bob" && m.Attempt == 1:
		fmt.Println("  bob's mailbox is full; that may pass, so there will be a retry")
		return errors.New("mailbox full")
	case to == "nobody", to == "erin" && m.ReplayCount == 0:
		fmt.Printf("  %s has no mailbox; no retry can help, so this is a dead letter\n", to)
		return worker.Permanent(errors.New("no such mailbox"))
	}
	fmt.Printf("  %s has mail, at attempt %d\n", m.Payload.To, m.Attempt)
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	slog.SetLogLoggerLevel(slog.LevelError + 1) // failures are logged, but happen here on purpose
	folder := doomed
	if folder == "" {
		folder = must(os.MkdirTemp("", "styx_quickstart_"))
		defer os.RemoveAll(folder)
	}
	open, url, schema := sqlite.Open, filepath.Join(folder, "styx.db"), ""
	if env := cmp.Or(os.Getenv("STYX_DATABASE_URL"), os.Getenv("DATABASE_URL")); env != "" {
		open, url, schema = postgres.Open, env, filepath.Base(folder)
	}
	db := must(open(ctx, url))
	defer db.Close()
	c := must(client.New(db, client.Config{Schema: schema}))
	w := must(worker.New(db, worker.Config{Schema: schema, Lease: time.Second, RetryPolicy: worker.Delays{time.Second}}))
	r := must(reaper.New(db, reaper.Config{Schema: schema}))
	worker.Handle(w, send, nil)
	if doomed != "" {
		panic(w.Run(ctx))
	}
	must(c.Migrations().Up(ctx))
	defer func() { must(c.Migrations().Down(context.WithoutCancel(ctx), 0)) }()

	fmt.Println("A mail to alice is enqueued. A worker begins to send it and is killed.")
	must(c.Enqueue(ctx, Mail{"alice"}, nil))
	child := exec.CommandContext(ctx, must(os.Executable()))
	child.Env = append(os.Environ(), "QUICKSTART_DOOMED="+folder)
	fmt.Println("  the worker's process ended:", child.Run())

	fmt.Println("More are enqueued: a batch, one for later, one within a transaction.")
	batch := must(c.EnqueueMany(ctx, []client.Item{{Payload: Mail{"bob"}}, {Payload: Mail{"erin"}}, {Payload: Mail{"nobody"}}}))
	must(c.Enqueue(ctx, Mail{"carol"}, &client.EnqueueOptions{Delay: 2 * time.Second}))
	tx := must(db.BeginTx(ctx, nil)) // rows of your own and the message: both or none
	must(c.EnqueueTx(ctx, tx, Mail{"dave"}, nil))
	must(0, tx.Commit())
	fmt.Println("A reaper, which takes back what a lost worker held, and another worker start.")
	var running sync.WaitGroup
	defer func() { stop(); running.Wait() }()
	running.Go(func() { must(0, w.Run(ctx)) })
	running.Go(func() { must(0, r.Run(ctx)) })
	wait(ctx, c)

	fmt.Println("By now erin has a mailbox, so her dead letter is replayed.")
	must(0, c.DeadLetters().Replay(ctx, batch[1].ID, nil))
	n := wait(ctx, c)
	fmt.Println("total", n["total"], "succeeded", n["succeeded"], "dead", n["dead"], "replayed", n["replayed"], "reaped", n["reaped"])
}

// wait counts the messages until every one has succeeded or is dead.
func wait(ctx context.Context, c *client.Client) (n map[string]int) {
	for n == nil || n["succeeded"]+n["dead"] < n["total"] {
		time.Sleep(50 * time.Millisecond)
		n = map[string]int{}
		for _, m := range must(c.List(ctx, client.ListOptions{})).Messages {
			n["total"]++
			n[string(m.Status)]++
			n["replayed"] += m.ReplayCount
			n["reaped"] += m.WorkerLosses
		}
	}
	return n
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
