//go:build unix

package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/client/sqlite"
	"github.com/styxmq/styx/internal/torture/history"
)

// Variable is the environment variable that makes a program one of the
// processes of a run.
const Variable = "STYX_TORTURE_ROLE"

// Exit codes of the processes.
const (
	exitFailed   = 1
	exitNoStart  = 3 // the database could not be reached
	exitPoisoned = 7
)

// part is a process's part in a run.
type part struct {
	Role   string `json:"role"`
	Name   string `json:"name"`
	Engine Engine `json:"engine"`
	URL    string `json:"url"`
	Dir    string `json:"dir"`
	Seed   uint64 `json:"seed"`
	// Lease of a worker; its handlers, and goroutines of a producer.
	Lease       time.Duration `json:"lease"`
	Concurrency int           `json:"concurrency"`
	// Rate of a producer in messages per second, and the backlog at which
	// it waits.
	Rate    float64 `json:"rate"`
	Backlog int     `json:"backlog"`
	// Address is that of the HTTP API: where a daemon serves it, and where
	// others call it. A producer without one enqueues through the database.
	Address string `json:"address"`
	// Spared is for a process that no fault is meant for, Vitals how often
	// it tells how it is.
	Spared bool          `json:"spared"`
	Vitals time.Duration `json:"vitals"`
	// Poison and Points are the shares of messages that do harm, Handler
	// how long a handler runs on average.
	Poison, Points float64
	Handler        time.Duration
}

// The roles.
const (
	roleProducer = "producer"
	roleWorker   = "worker"
	roleReaper   = "reaper"
	roleOperator = "operator"
	roleDaemon   = "daemon"
	roleConsumer = "consumer"
)

// roles are all, in the order in which they may end.
var roles = []string{roleProducer, roleOperator, roleWorker, roleConsumer, roleDaemon, roleReaper}

// player is a process that plays its part.
type player struct {
	part
	db       *bun.DB
	h        *history.Writer
	log      *slog.Logger
	commands chan command
	waits    waits
}

// command is a line that the coordinator sends.
type command struct {
	verb string
	arg  string
}

// errNoStart: the database was not there when the process began.
var errNoStart = errors.New("the database cannot be reached")

// IsRole reports whether this process is to call [RunRole].
func IsRole() bool { return os.Getenv(Variable) != "" }

// RunRole plays the part that the environment names until it is told to end by
// SIGTERM or the end of its standard input. It returns the exit code.
func RunRole(ctx context.Context) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	var p part
	if err := json.Unmarshal([]byte(os.Getenv(Variable)), &p); err != nil {
		fmt.Fprintln(os.Stderr, "read part:", err)
		return exitFailed
	}
	switch err := play(ctx, p); {
	case errors.Is(err, errNoStart):
		fmt.Fprintln(os.Stderr, p.Name+":", err)
		return exitNoStart
	case err != nil:
		fmt.Fprintln(os.Stderr, p.Name+":", err)
		return exitFailed
	}
	return 0
}

func play(ctx context.Context, p part) error {
	h, err := history.Create(p.Dir, p.Name)
	if err != nil {
		return err
	}
	db, err := open(ctx, p.Engine, p.URL)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("%w: %w", errNoStart, err)
	}
	defer func() { _ = db.Close() }()
	pl := &player{part: p, db: db, h: h, commands: make(chan command, 16)}
	pl.log = slog.New(&listener{h: h, out: os.Stderr})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // lives as long as the process
		defer cancel()
		for scan := bufio.NewScanner(os.Stdin); scan.Scan(); {
			verb, arg, _ := strings.Cut(scan.Text(), " ")
			pl.commands <- command{verb, arg}
		}
	}()
	if p.Vitals > 0 {
		go pl.tellVitals(ctx) // lives as long as the process
	}
	defer context.AfterFunc(ctx, func() { h.Add(history.Event{Kind: history.Draining}) })()
	switch p.Role {
	case roleProducer:
		return pl.produce(ctx)
	case roleWorker:
		return pl.work(ctx)
	case roleReaper:
		return pl.reap(ctx)
	case roleOperator:
		return pl.operate(ctx)
	case roleDaemon:
		return pl.serve(ctx)
	case roleConsumer:
		return pl.consume(ctx)
	}
	return fmt.Errorf("no such role: %s", p.Role)
}

func open(ctx context.Context, e Engine, url string) (*bun.DB, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if e == SQLite {
		return sqlite.Open(ctx, url)
	}
	return postgres.Open(ctx, url)
}

// unreachable says of an error with which Run has ended that it never began.
func unreachable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errNoStart, err)
}

// die ends this process as a crash of the machine would.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// pause waits, or returns false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
