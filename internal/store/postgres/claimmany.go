package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/styxmq/styx/internal/store"
)

const (
	// claimFlights is how many claims are under way before the next ones wait
	// for each other, unless one takes longer than claimPatience: no queue is
	// to suffer from another that is slow to claim from.
	claimFlights  = 1
	claimPatience = 50 * time.Millisecond
	// claimRows bounds the messages of a statement that claims from one queue,
	// sharedRows those of one that claims from several.
	claimRows, sharedRows = 2000, 1000
)

// claims lets the queues of one worker share a statement when there are many
// of them: a message costs little beside the statement that claims it.
type claims = flights[*wanted, taken]

func newClaims(s *Store) claims {
	return claims{most: claimFlights, board: boardClaims, run: s.claimMany, patience: claimPatience}
}

// boardClaims takes those that differ from the first in their queue and in
// where they begin, and nothing else.
func boardClaims(waiting []*passenger[*wanted, taken]) int {
	first := waiting[0].want
	rows, queues := 0, make(map[string]struct{}, len(waiting))
	rest := make([]*passenger[*wanted, taken], 0, len(waiting))
	n := 0
	for _, p := range waiting {
		w := p.want
		_, again := queues[w.Queue]
		if n > 0 && (again || rows+w.limit > sharedRows || w.src != first.src || w.WorkerID != first.WorkerID ||
			w.other != first.other || w.own != first.own || w.kinds != first.kinds) {
			rest = append(rest, p)
			continue
		}
		queues[w.Queue] = struct{}{}
		rows += w.limit
		waiting[n] = p
		n++
	}
	copy(waiting[n:], rest)
	return n
}

// claimMany makes one claim for all of wants.
func (s *Store) claimMany(ctx context.Context, wants []*wanted) ([]taken, error) {
	out := make([]taken, len(wants))
	first := wants[0]
	if len(wants) == 1 {
		var err error
		out[0], err = s.claimOne(ctx, first)
		return out, err
	}
	queues, numbers, most := make([]string, len(wants)), make([]int64, len(wants)), make([]int64, len(wants))
	var from Param
	none := int8ArrayParam(nil) // of which the missing elements are NULL
	after, scopes, solids := none, none, none
	at := make(map[string]int, len(wants))
	for i, w := range wants {
		queues[i], numbers[i], most[i], at[w.Queue] = w.Queue, w.number, int64(w.limit), i
		out[i].messages = make([]store.Claimed, 0, w.limit)
	}
	if first.src == sourceReady {
		ids := make([]int64, len(wants))
		for i, w := range wants {
			ids[i] = w.after
		}
		after = int8ArrayParam(ids)
		scopes = valuesParam(oidInt8Array, oidInt8, len(wants), func(i int) Param { return optional(wants[i].scope) })
		solids = valuesParam(oidInt8Array, oidInt8, len(wants), func(i int) Param { return optional(wants[i].solid) })
		from = valuesParam(oidInt2Array, oidInt2, len(wants), func(i int) Param { return int2Param(wants[i].priority) })
	} else {
		from = valuesParam(oidTimeArray, oidTime, len(wants), func(i int) Param { return timeParam(wants[i].due) })
	}
	names := names{kinds: first.Kinds}
	err := s.claimInTurn(ctx, wants, Statement{s.hot.claimMany(first.src, first.kinds.Valid), []Param{
		textArrayParam(queues, false), int8Param(first.WorkerID), int8ArrayParam(numbers),
		int8Param(first.other), int8Param(first.own), first.kindsParam(), from, after, int8ArrayParam(most), scopes, solids,
	}}, func(values [][]byte) error {
		last := len(values) - 1
		i, ok := at[string(values[last])]
		if !ok {
			return fmt.Errorf("claim from %d queues: got a message of another", len(wants))
		}
		t := &out[i]
		t.messages = append(t.messages, store.Claimed{})
		return wants[i].decode(values[:last], &t.messages[len(t.messages)-1], &names)
	})
	if err != nil {
		return nil, mapError(err)
	}
	for i, w := range wants {
		out[i].full = len(out[i].messages) >= w.limit
	}
	return out, nil
}
