package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

var (
	errNoRepository = errors.New("the delivery names no repository")
	errNetwork      = errors.New("the network is down")
)

// repository is what every payload must have.
type repository struct {
	FullName string `json:"full_name"`
}

// push, issue and pullRequest are the payloads of the events whose kind they
// name: as much of them as is wanted here.
type push struct {
	Ref        string                `json:"ref"`
	Commits    []struct{ ID string } `json:"commits"`
	Repository *repository           `json:"repository"`
}

type issue struct {
	Action string `json:"action"`
	Issue  struct {
		Number int    `json:"number"`
		Title  string `json:"title"`
	} `json:"issue"`
	Repository *repository `json:"repository"`
}

type pullRequest struct {
	Action      string `json:"action"`
	Number      int    `json:"number"`
	PullRequest struct {
		Title  string `json:"title"`
		Merged bool   `json:"merged"`
	} `json:"pull_request"`
	Repository *repository `json:"repository"`
}

func (push) Kind() string        { return "push" }
func (issue) Kind() string       { return "issues" }
func (pullRequest) Kind() string { return "pull_request" }

func onPush(_ context.Context, m *worker.Message[push]) error {
	return require(m.Payload.Repository)
}

func onIssue(_ context.Context, m *worker.Message[issue]) error {
	return require(m.Payload.Repository)
}

func onPullRequest(_ context.Context, m *worker.Message[pullRequest]) error {
	return require(m.Payload.Repository)
}

// onAnything takes every kind that has no handler of its own, as text.
func onAnything(_ context.Context, m *worker.Message[string]) error {
	var payload struct {
		Repository *repository `json:"repository"`
	}
	if err := json.Unmarshal([]byte(m.Payload), &payload); err != nil {
		return worker.Permanent(fmt.Errorf("decode payload of %q: %w", m.Kind, err))
	}
	return require(payload.Repository)
}

// require refuses for good what no retry can mend.
func require(r *repository) error {
	if r == nil {
		return worker.Permanent(errNoRepository)
	}
	return nil
}

// flaky is middleware that lets the first attempt of every fifth delivery
// fail.
func flaky(next worker.HandlerFunc) worker.HandlerFunc {
	return func(ctx context.Context, m *message.Message) error {
		n, err := strconv.Atoi(m.Headers[numberHeader])
		if err == nil && n%5 == 0 && m.Attempt == 1 {
			return errNetwork
		}
		return next(ctx, m)
	}
}

// log is middleware that notes which messages succeeded, and which ran after
// they had. Delivery is at least once, so a handler may see that happen when
// its worker is lost; here no worker is.
type log struct {
	mu        sync.Mutex
	succeeded map[int64]bool
	again     []int64
}

func newLog() *log { return &log{succeeded: map[int64]bool{}} }

func (l *log) watch(next worker.HandlerFunc) worker.HandlerFunc {
	return func(ctx context.Context, m *message.Message) error {
		l.begin(m.ID)
		err := next(ctx, m)
		if err == nil {
			l.end(m.ID)
		}
		return err
	}
}

func (l *log) begin(id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.succeeded[id] {
		l.again = append(l.again, id)
	}
}

func (l *log) end(id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.succeeded[id] = true
}

// ranAgain returns the ids of messages that ran after they had succeeded.
func (l *log) ranAgain() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.again)
}
