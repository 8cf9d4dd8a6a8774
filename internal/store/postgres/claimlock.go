package postgres

import (
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// claimLocks is how many claims from one queue are under way at once, from
	// all processes together. A claim walks over every row that another one
	// has locked and not committed, which costs more than to take a row: sixteen
	// at once are slower than three after each other.
	claimLocks = 3
	// claimLockQueues is for how many queues a claim that they share takes
	// locks. Where there are more of them, each has few claims.
	claimLockQueues = 8
	// claimLockWait is how long a claim waits for its turn, in milliseconds.
	// Somebody whose network has gone away in the middle of an answer must not
	// keep the others from working for longer than this.
	claimLockWait = 2000
	// claimUnlocked is for how long nobody waits after that.
	claimUnlocked = 10 * time.Second
)

// claimLockText waits for the turns of several claims, in a statement of its
// own: the claim's snapshot must be of afterwards. Parameters: $1 keys,
// ascending so that nobody waits in a circle, $2 how long.
const claimLockText = `SELECT set_config('lock_timeout', $2, true), pg_catalog.pg_advisory_xact_lock(k) FROM unnest($1::bigint[]) AS k`

// turns says whether claims wait for each other.
type turns struct{ freeUntil atomic.Int64 } // nanoseconds since 1970

func (t *turns) free() bool { return time.Now().UnixNano() < t.freeUntil.Load() }

// claimInTurn runs a claim for wants, which differ in their queues alone.
func (s *Store) claimInTurn(ctx context.Context, wants []*wanted, claim Statement, row func(values [][]byte) error) error {
	if len(wants) > claimLockQueues || s.turns.free() {
		_, err := s.natives(ctx, s.sql, []Statement{claim}, row)
		return err
	}
	keys := make([]int64, len(wants))
	for i, w := range wants {
		keys[i] = s.claimLock(w.WorkerID, w.Queue)
	}
	slices.Sort(keys)
	_, err := s.natives(ctx, s.sql, []Statement{
		{claimLockText, []Param{int8ArrayParam(keys), textParam(strconv.Itoa(claimLockWait))}}, claim,
	}, row)
	switch sqlState(err) {
	case "55P03", "40001": // it took too long, or its snapshot is of before; nothing was done
		s.turns.freeUntil.Store(time.Now().Add(claimUnlocked).UnixNano())
		_, err = s.natives(ctx, s.sql, []Statement{claim}, row)
	}
	return err
}

// claimLock is the key of the lock that a worker's claims from a queue take.
func (s *Store) claimLock(worker int64, queue string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("styx claim\x00" + s.schema + "\x00" + queue + "\x00" + strconv.FormatInt(worker%claimLocks, 10)))
	return int64(h.Sum64()) //nolint:gosec // its bits
}
