package postgres

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// claimTogether is how many messages claims from one queue that are under
	// way at once may ask for, from all processes together: a large claim goes
	// alone, small ones up to claimLocks at once. A claim walks over every row
	// that another one has locked, which costs as much as to take a row; and
	// when that one commits meanwhile, it locks the new version of the row,
	// for whose settlement somebody waits then.
	claimTogether = 500
	claimLocks    = 16
	// claimLockQueues is for how many queues a claim that they share takes
	// locks. Where there are more of them, each has few claims.
	claimLockQueues = 8
	// claimLockWait is how long a claim waits for its turn before it looks who
	// has it. Somebody whose network has gone away in the middle of an answer
	// must not keep the others from working for longer than this.
	claimLockWait = 5 * time.Second
	// claimUnlocked is for how long nobody waits after that.
	claimUnlocked = 10 * time.Second
)

// claimLockText waits for the turns of several claims, in a statement of its
// own: the claim's snapshot must be of afterwards. Parameters: $1 keys,
// ascending so that nobody waits in a circle, $2 how long.
const claimLockText = `SELECT set_config('lock_timeout', $2, true), pg_catalog.pg_advisory_xact_lock(k) FROM unnest($1::bigint[]) AS k`

// claimHeldText reports whether one of the keys $1 is held by a claim that has
// run for $2 milliseconds, or by somebody of whom nothing is known.
const claimHeldText = `SELECT coalesce(bool_or(coalesce(a.query_start <= clock_timestamp() - $2::bigint * interval '1 ms', true)), false)
  FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a USING (pid)
 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
   AND (l.classid::bigint << 32 | l.objid::bigint) = ANY($1::bigint[])`

// errNoTurn reports that others went first for all the time that a claim
// waits.
var errNoTurn = errors.New("others claim")

// turns says whether claims wait for each other.
type turns struct{ freeUntil atomic.Int64 } // nanoseconds since 1970

func (t *turns) free() bool { return time.Now().UnixNano() < t.freeUntil.Load() }

// claimInTurn runs a claim for wants, which differ in their queues alone.
func (s *Store) claimInTurn(ctx context.Context, wants []*wanted, claim Statement, row func(values [][]byte) error) error {
	keys := make([]int64, len(wants))
	for i, w := range wants {
		keys[i] = s.claimLock(w.WorkerID, w.Queue, w.limit)
	}
	slices.Sort(keys)
	if len(wants) <= claimLockQueues && !s.turns.free() {
		_, err := s.natives(ctx, s.sql, []Statement{
			{claimLockText, []Param{int8ArrayParam(keys), textParam(strconv.FormatInt(claimLockWait.Milliseconds(), 10))}}, claim,
		}, row)
		switch sqlState(err) {
		case "55P03": // nothing was done
			held := false
			if err := s.sql.QueryRowContext(ctx, claimHeldText, intArray(keys), claimLockWait.Milliseconds()).Scan(&held); err != nil {
				return err
			}
			if !held { // the others are many, and go ahead
				return errNoTurn
			}
		case "40001": // the snapshot is of before
		default:
			return err
		}
		s.turns.freeUntil.Store(time.Now().Add(claimUnlocked).UnixNano())
	}
	_, err := s.natives(ctx, s.sql, []Statement{claim}, row)
	return err
}

// claimLock is the key of the lock that a worker's claims from a queue take.
func (s *Store) claimLock(worker int64, queue string, limit int) int64 {
	turn := worker % int64(min(max(claimTogether/limit, 1), claimLocks))
	h := fnv.New64a()
	_, _ = h.Write([]byte("styx claim\x00" + s.schema + "\x00" + queue + "\x00" + strconv.FormatInt(turn, 10)))
	return int64(h.Sum64()) //nolint:gosec // its bits
}
