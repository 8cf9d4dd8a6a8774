package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

const (
	floorBatch   = 1000
	floorWorker  = 1
	floorIdle    = time.Millisecond
	floorRetries = 5
)

// floor is the least that a program has to do for the same promises: the
// statements, in two loops. It has no retries, no leases that are renewed, no
// wake-ups, no second worker.
type floor struct {
	pool *pgxpool.Pool
}

func openFloor(ctx context.Context, place string, conns int) (system, error) {
	cfg, err := pgxpool.ParseConfig(place)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(conns)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &floor{pool: pool}, nil
}

// prepare makes the tables of Styx.
func (f *floor) prepare(ctx context.Context) error {
	s, err := openStyx(ctx, f.pool.Config().ConnString(), poolConns)
	if err != nil {
		return err
	}
	return errors.Join(s.prepare(ctx), s.close())
}

func (f *floor) enqueue(ctx context.Context, j job) error {
	data, err := json.Marshal(j.payload)
	if err != nil {
		return err
	}
	var id int64
	return f.pool.QueryRow(ctx, floorInsert, queueOrDefault(j.queue), j.payload.Kind(), string(data), floorRetries).Scan(&id)
}

func (f *floor) enqueueMany(ctx context.Context, jobs []job) error {
	payloads := make([]string, len(jobs))
	for i, j := range jobs {
		data, err := json.Marshal(j.payload)
		if err != nil {
			return err
		}
		payloads[i] = string(data)
	}
	var ids []int64
	return f.pool.QueryRow(ctx, floorInsertMany, queueOrDefault(""), payload{}.Kind(), payloads, floorRetries).Scan(&ids)
}

func queueOrDefault(name string) string {
	if name == "" {
		return "default"
	}
	return name
}

type floorMessage struct {
	place     string
	id, token int64
	payload   string
}

func (f *floor) work(ctx context.Context, c crew) (stopFunc, error) {
	run, cancel := context.WithCancel(ctx)
	claimed := make(chan floorClaim, 2)
	group, groupCtx := errgroup.WithContext(context.WithoutCancel(ctx))
	group.Go(func() error {
		defer close(claimed)
		return f.claimAll(run, groupCtx, claimed)
	})
	group.Go(func() error {
		for batch := range claimed {
			if err := f.finish(groupCtx, batch, c.handle); err != nil {
				return err
			}
		}
		return nil
	})
	return func(context.Context) (time.Time, error) {
		cancel()
		err := group.Wait()
		return time.Now(), err
	}, nil
}

type floorClaim struct {
	number   int64
	messages []floorMessage
}

// claimAll claims until run ends. What it has claimed is always handed on.
func (f *floor) claimAll(run, ctx context.Context, claimed chan<- floorClaim) error {
	var after int64
	for number := int64(1); run.Err() == nil; number++ {
		messages, err := f.claim(ctx, after, number)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		if len(messages) == 0 {
			select {
			case <-run.Done():
			case <-time.After(floorIdle):
			}
			continue
		}
		for _, m := range messages {
			after = max(after, m.id)
		}
		select {
		case claimed <- floorClaim{number: number, messages: messages}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (f *floor) claim(ctx context.Context, after, number int64) ([]floorMessage, error) {
	rows, err := f.pool.Query(ctx, floorClaimText, "default", after, int64(floorWorker), number)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make([]floorMessage, 0, floorBatch)
	for rows.Next() {
		var (
			m       floorMessage
			kind    string
			created time.Time
			retries int
		)
		if err := rows.Scan(&m.place, &m.id, &m.token, &kind, &m.payload, &created, &retries); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, rows.Err()
}

// finish handles a batch and records it.
func (f *floor) finish(ctx context.Context, batch floorClaim, handle func(payload, int) error) error {
	slices.SortFunc(batch.messages, func(a, b floorMessage) int { return cmp.Compare(a.id, b.id) })
	n := len(batch.messages)
	ids, tokens, elapsed := make([]int64, n), make([]int64, n), make([]int64, n)
	var places strings.Builder
	places.WriteByte('{')
	for i, m := range batch.messages {
		var p payload
		if err := json.Unmarshal([]byte(m.payload), &p); err != nil {
			return fmt.Errorf("decode message %d: %w", m.id, err)
		}
		if err := handle(p, 1); err != nil {
			return fmt.Errorf("handle message %d: %w", m.id, err)
		}
		ids[i], tokens[i] = m.id, m.token
		if i > 0 {
			places.WriteByte(',')
		}
		places.WriteString(`"` + m.place + `"`)
	}
	places.WriteByte('}')
	tag, err := f.pool.Exec(ctx, floorSettle, int64(floorWorker), ids, tokens, elapsed, []int64{batch.number}, places.String())
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	if tag.RowsAffected() != int64(n) {
		return fmt.Errorf("settle: %d of %d messages were still held", tag.RowsAffected(), n)
	}
	return nil
}

func (f *floor) done(ctx context.Context, _ []string) (n int, err error) {
	return n, f.pool.QueryRow(ctx, `SELECT count(*) FROM styx.archive`).Scan(&n)
}

func (f *floor) close() error {
	f.pool.Close()
	return nil
}
