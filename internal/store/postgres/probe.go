package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

const (
	// probeFlights is how many probes are under way before the next ones wait
	// for each other, unless one takes longer than claimPatience.
	probeFlights = 1
	// probeQueues bounds the queues of one probe, so that the first claims
	// need not wait for all of them.
	probeQueues = 100
)

// priorities is how many there are.
const priorities = message.MaxPriority - message.MinPriority + 1

// probed is what every probe learns, whatever its queue.
type probed struct {
	lastID    int64
	xmin, xid uint64
	now       time.Time
}

// question is what a probe is asked.
type question struct {
	queue   string
	worker  int64
	kinds   sql.NullString
	dueFrom time.Time
	runs    []laneRun
	draw    bool
}

// laneRun is a range of priorities of which the first row is asked for: one
// priority from its floor on, or several of which no row was ever seen.
type laneRun struct {
	from, to int // as indexes of floors
	floor    int64
	scope    int64 // of one priority, as a claim from there would have it
}

// answer is what it found.
type answer struct {
	probed
	// due and suspects are how many microseconds away the next one is.
	due, suspects sql.NullInt64
	// active are the priorities and ids that were found, as 0:17,3:20.
	active string
	// behind reports that another worker, with a smaller id, holds messages of
	// the same scopes.
	behind bool
	took   time.Duration // its part of the statement
}

type (
	probes = flights[*question, answer]
	draws  = flights[struct{}, probed]
)

func newProbes(s *Store) probes {
	return probes{most: probeFlights, board: boardProbes, run: s.probeMany, patience: claimPatience}
}

func boardProbes(waiting []*passenger[*question, answer]) int {
	n := 1
	for n < min(len(waiting), probeQueues) && waiting[n].want.kinds == waiting[0].want.kinds {
		n++
	}
	return n
}

// newDraws shares what every cursor draws first.
func newDraws(s *Store) draws {
	return draws{
		most:  probeFlights,
		board: func(waiting []*passenger[struct{}, probed]) int { return len(waiting) },
		run: func(ctx context.Context, of []struct{}) ([]probed, error) {
			one, err := s.draw(ctx)
			all := make([]probed, len(of))
			for i := range all {
				all[i] = one
			}
			return all, err
		},
	}
}

// draw draws a transaction id and reads the end of what has begun by then.
func (s *Store) draw(ctx context.Context) (p probed, err error) {
	var xid string
	if err := s.sql.QueryRowContext(ctx, s.text(drawText)).Scan(&xid, &p.lastID, &p.now); err != nil {
		return p, mapError(err)
	}
	p.xid, _ = strconv.ParseUint(xid, 10, 64)
	return p, nil
}

const drawText = `SELECT pg_current_xact_id()::text, ` + lastIDText + `, statement_timestamp()`

// lastIDText is the last id that was drawn.
const lastIDText = `(SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM {{s}}message_id)`

// probe asks one question, together with those that come at the same time.
func (s *Store) probe(ctx context.Context, q *question) (answer, error) {
	return s.probes.do(ctx, q, func() (answer, error) {
		all, err := s.probeMany(ctx, []*question{q})
		if err != nil {
			return answer{}, err
		}
		return all[0], nil
	})
}

// probeMany asks questions that have their kinds in common.
func (s *Store) probeMany(ctx context.Context, qs []*question) ([]answer, error) {
	queues, from := newTextArray(16*len(qs), false), newTextArray(32*len(qs), false)
	var ends, workers, lows, highs, floors, scopes []int64
	draw := false
	for _, q := range qs {
		queues.add(q.queue)
		from.add(timeArg(q.dueFrom))
		for _, r := range q.runs {
			lows, highs = append(lows, int64(r.from+message.MinPriority)), append(highs, int64(r.to+message.MinPriority))
			floors, scopes = append(floors, r.floor), append(scopes, r.scope)
		}
		ends, workers = append(ends, int64(len(lows))), append(workers, q.worker)
		draw = draw || q.draw
	}
	kinds := qs[0].kinds
	args := []any{
		queues.String(), kinds, from.String(), draw,
		intArray(ends), intArray(lows), intArray(highs), intArray(floors), intArray(scopes), intArray(workers),
	}
	out := make([]answer, len(qs))
	began := time.Now()
	err := store.ErrNoNative
	if len(qs) == 1 { // for many a plan of their own pays
		err = s.probeNative(ctx, kinds.Valid, args, out)
	}
	if errors.Is(err, store.ErrNoNative) {
		err = s.probeSQL(ctx, kinds.Valid, args, out)
	}
	for i := range out {
		out[i].took = time.Since(began) / time.Duration(len(qs))
	}
	return out, mapError(err)
}

func (s *Store) probeSQL(ctx context.Context, kinds bool, args []any, out []answer) error {
	rows, err := s.sql.QueryContext(ctx, s.hot.probe(kinds), args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var (
			n         int
			a         answer
			xmin, xid string
		)
		if err := rows.Scan(&n, &a.due, &a.suspects, &a.active, &a.lastID, &xmin, &xid, &a.now, &a.behind); err != nil {
			return err
		}
		a.xmin, _ = strconv.ParseUint(xmin, 10, 64)
		a.xid, _ = strconv.ParseUint(xid, 10, 64)
		out[n-1] = a
	}
	return rows.Err()
}

// probeGenericText keeps the server from planning each probe anew, which takes
// longer than the probe.
const probeGenericText = `SELECT set_config('plan_cache_mode', 'force_generic_plan', true)`

// probeNative is probeSQL past database/sql. Every parameter goes as text.
func (s *Store) probeNative(ctx context.Context, kinds bool, args []any, out []answer) error {
	params := make([]Param, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			params[i] = textParam(arg)
		case bool:
			params[i] = textParam(strconv.FormatBool(arg))
		case sql.NullString:
			if params[i] = (Param{OID: oidText}); arg.Valid {
				params[i] = textParam(arg.String)
			}
		}
	}
	_, err := s.natives(ctx, s.sql, []Statement{{Text: probeGenericText}, {s.hot.probe(kinds), params}}, func(values [][]byte) error {
		d := decoder{values: values}
		n := d.int64()
		a := answer{due: d.nullInt64(), suspects: d.nullInt64(), active: string(d.bytes())}
		a.lastID = d.int64()
		a.xmin, _ = strconv.ParseUint(string(d.bytes()), 10, 64)
		a.xid, _ = strconv.ParseUint(string(d.bytes()), 10, 64)
		a.now, a.behind = d.time(), d.next(1)[0] != 0
		out[n-1] = a
		return d.err
	})
	return err
}

// probe looks at what queues hold without taking anything. Locks: none.
// Indexes: messages_due, messages_suspect and messages_ready, each entry by a
// descent to its floor; no subquery can be flattened into a join, because of
// its LIMIT. Suspects are looked at from the beginning: they are few, and wait
// for their turn while newer ones pass. Parameters: $1 queues, $2 kinds, $3 the
// floor of each queue's due ones, $4 whether to draw a transaction id: all that
// were drawn before are smaller (the xmax of a snapshot is not, it follows the
// last one that has ended); $5 where each queue's runs end among $6 to $8,
// which are their least and greatest priorities and their floors; $9 their
// scopes, 0 for none; $10 who asks for each queue.
func (s statements) probe(kinds bool) string {
	return s.get(fmt.Sprintf("probe %t", kinds), func() string {
		kind := "AND ($2::text[]) IS NULL"
		if kinds {
			kind = "AND kind = ANY($2::text[])"
		}
		next := func(losses, from string) string {
			return `(SELECT (extract(epoch FROM due_at - clock_timestamp()) * 1000000)::bigint FROM {{s}}messages
	  WHERE queue = q.queue AND lane = '' AND losses ` + losses + ` AND due_at >= ` + from + ` AND status = 0 ` + kind + `
	  ORDER BY due_at LIMIT 1)`
		}
		return fmt.Sprintf(`SELECT q.n, %s,
	%s,
	(SELECT coalesce(string_agg(m.priority || ':' || m.id, ',' ORDER BY m.priority), '')
	   FROM unnest(($6::smallint[])[q.behind + 1 : q.last], ($7::smallint[])[q.behind + 1 : q.last],
	               ($8::bigint[])[q.behind + 1 : q.last], ($9::bigint[])[q.behind + 1 : q.last]) AS f (low, high, floor, scope)
	  CROSS JOIN LATERAL (
	        SELECT m.id, m.priority FROM {{s}}messages m
	         WHERE m.queue = q.queue AND m.lane = '' AND m.due_at IS NULL
	           AND (m.priority, m.id) > (f.low, `+frontier("f.floor", "f.scope")+`) AND m.priority <= f.high
	         ORDER BY m.priority, m.id LIMIT 1) AS m),
	%s, pg_snapshot_xmin(pg_current_snapshot())::text,
	CASE WHEN $4::boolean THEN pg_current_xact_id()::text ELSE '0' END, statement_timestamp(),
	EXISTS (SELECT FROM unnest(($9::bigint[])[q.behind + 1 : q.last]) AS f (scope) CROSS JOIN LATERAL (
	        (SELECT FROM {{s}}claims o WHERE o.scope = f.scope AND o.worker_id < q.worker LIMIT 1)
	        UNION ALL (SELECT FROM {{s}}claims o WHERE o.scope = -f.scope AND o.worker_id < q.worker LIMIT 1)) AS o
	         WHERE f.scope <> 0)
  FROM (SELECT u.*, coalesce(($5::integer[])[u.n - 1], 0) AS behind
	      FROM unnest($1::text[], $3::text[], $5::integer[], $10::bigint[]) WITH ORDINALITY AS u (queue, due, last, worker, n)) AS q`,
			next("= 0", "q.due::timestamptz"), next("> 0", "'-infinity'::timestamptz"), lastIDText)
	})
}
