// Hello enqueues a message and works it, until Ctrl-C:
//
//	go run ./examples/hello
//
// It is the first program of the README. The messages stay in the file
// styx.db in the working folder.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/sqlite"
	"github.com/styxmq/styx/worker"
)

type Welcome struct{ To string }

func (Welcome) Kind() string { return "welcome" }

func send(_ context.Context, m *worker.Message[Welcome]) error {
	fmt.Println("welcome,", m.Payload.To)
	return nil // an error would be retried
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	db, err := sqlite.Open(ctx, "styx.db") // or postgres.Open(ctx, url)
	check(err)
	c, err := client.New(db, client.Config{})
	check(err)
	check(c.Migrate(ctx))
	_, err = c.Enqueue(ctx, Welcome{To: "Ada"}, nil)
	check(err)
	w, err := worker.New(db, worker.Config{})
	check(err)
	worker.Handle(w, send, nil)
	check(w.Run(ctx)) // until Ctrl-C
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
