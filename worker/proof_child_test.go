package worker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

// children are what a child process can do, by name.
var children = map[string]func() error{"work": childWork, "enqueue": childEnqueue, "produce": childProduce}

// What a child is told.
const (
	urlVariable    = "STYX_WORKER_TEST_URL"
	schemaVariable = "STYX_WORKER_TEST_SCHEMA"
	leaseVariable  = "STYX_WORKER_TEST_LEASE"
	slotsVariable  = "STYX_WORKER_TEST_SLOTS"
	atVariable     = "STYX_WORKER_TEST_AT"
)

// poisoned is how a process ends that was killed by a payload.
const poisoned = 7

// childWork is a worker process. It prints a line for each start of a
// handler, "ran id attempt", and what else its handlers see.
func childWork() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := openURL(ctx, os.Getenv(schemaVariable), os.Getenv(urlVariable))
	if ctx.Err() != nil {
		return nil // stopped before it began
	}
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	lease, _ := time.ParseDuration(os.Getenv(leaseVariable)) // empty is the default
	slots, _ := strconv.Atoi(os.Getenv(slotsVariable))
	w, err := worker.New(db, worker.Config{
		Schema: os.Getenv(schemaVariable), Lease: lease, Concurrency: slots, RetryPolicy: soon,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	word := make(chan string, 1)
	go func() { // lives as long as the process
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		word <- line
	}()
	worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
		fmt.Println("ran", m.ID, m.Attempt)
		switch m.Payload.Text {
		case "poison":
			os.Exit(poisoned)
		case "hang":
			<-ctx.Done()
			cause := context.Cause(ctx)
			fmt.Println("cause", m.ID, errors.Is(cause, message.ErrLeaseLost))
			fmt.Println("extend", m.ID, errors.Is(m.Extend(context.WithoutCancel(ctx), time.Hour), message.ErrLeaseLost))
		case "word":
			<-word
		case "fail":
			return errBroken
		case "slow":
			<-time.After(time.Duration(m.Payload.N) * time.Millisecond)
		}
		return nil
	}, nil)
	return w.Run(ctx)
}

// child is another process of this test.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	once  sync.Once
	err   error
}

// spawn starts a child on the rig's database.
func (r *rig) spawn(name string, env ...string) *child {
	r.t.Helper()
	c := &child{cmd: exec.Command(os.Args[0]), lines: make(chan string, 10_000)} //nolint:gosec,noctx // this program, ended below
	c.cmd.Env = append(append(os.Environ(), childVariable+"="+name, urlVariable+"="+r.db.URL, schemaVariable+"="+r.db.Schema), env...)
	c.cmd.Stderr = &logWriter{t: r.t}
	out, err := c.cmd.StdoutPipe()
	require.NoError(r.t, err)
	c.in, err = c.cmd.StdinPipe()
	require.NoError(r.t, err)
	require.NoError(r.t, c.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(c.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			c.lines <- scan.Text()
		}
	}()
	r.t.Cleanup(func() {
		_ = c.cmd.Process.Signal(syscall.SIGCONT)
		_ = c.cmd.Process.Kill()
		go func() {
			for range c.lines {
				continue // make room for the reader
			}
		}()
		<-read
		_ = c.wait()
	})
	return c
}

// wait waits for the end of the process, whose lines must have been read.
func (c *child) wait() error {
	c.once.Do(func() { c.err = c.cmd.Wait() })
	return c.err
}

func (c *child) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(s))
}

// next waits for a line that begins so, and returns its words.
func (c *child) next(t *testing.T, prefix string) []string {
	t.Helper()
	for {
		select {
		case line, ok := <-c.lines:
			require.True(t, ok, "the process has ended, waiting for %q", prefix)
			if strings.HasPrefix(line, prefix) {
				return strings.Fields(line)
			}
		case <-time.After(patience):
			t.Fatalf("waited for a line %q", prefix)
		}
	}
}

// rest returns the lines up to the end of the process.
func (c *child) rest() (lines []string) {
	for line := range c.lines {
		lines = append(lines, line)
	}
	return lines
}

// logWriter keeps what a child says for the case that the test fails.
type logWriter struct {
	t  *testing.T
	mu sync.Mutex
	n  int
}

func (l *logWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n < 50 && l.t.Context().Err() == nil { // later it may not log any more
		l.t.Logf("child: %s", p)
	}
	l.n++
	return len(p), nil
}

// childEnqueue stores one message of each sort that has to do with time.
func childEnqueue() error {
	ctx := context.Background()
	db, err := openURL(ctx, os.Getenv(schemaVariable), os.Getenv(urlVariable))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	c, err := client.New(db, client.Config{Schema: os.Getenv(schemaVariable)})
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(os.Getenv(atVariable), 10, 64)
	if err != nil {
		return err
	}
	for _, m := range []struct {
		text string
		opts client.EnqueueOptions
	}{
		{"", client.EnqueueOptions{}},
		{"", client.EnqueueOptions{RunAt: time.Unix(at, 0)}},
		{"", client.EnqueueOptions{Delay: 2 * time.Second}},
		{"", client.EnqueueOptions{Delay: time.Hour, ExpiresIn: time.Hour}},
		{"fail", client.EnqueueOptions{MaxRetries: 2}},
		{"", client.EnqueueOptions{ExpiresIn: 10 * time.Minute}},
	} {
		stored, err := c.Enqueue(ctx, job{Text: m.text}, &m.opts)
		if err != nil {
			return err
		}
		fmt.Println(stored.ID)
	}
	return nil
}
