package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	open "github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/store/postgres"
)

// children names the archive's partitions with their bounds.
func children(t *testing.T, f fixture) string {
	t.Helper()
	tx := f.begin(t, sql.LevelDefault)
	defer func() { require.NoError(t, tx.Rollback()) }()
	_, err := tx.ExecContext(t.Context(), `SET LOCAL TimeZone = 'UTC'`)
	require.NoError(t, err)
	var all sql.NullString
	require.NoError(t, tx.QueryRowContext(t.Context(), f.text(`SELECT string_agg(c.relname || ' ' || pg_get_expr(c.relpartbound, c.oid), E'\n' ORDER BY c.relname)
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = '{{s}}archive'::regclass`)).Scan(&all))
	return all.String
}

// week is what children must be with the partitions of the days around today.
func week(t *testing.T, f fixture) string {
	t.Helper()
	return value[string](t, f, `SELECT string_agg(format('archive_%s FOR VALUES FROM (''%s 00:00:00+00'') TO (''%s 00:00:00+00'')',
		to_char(d, 'YYYYMMDD'), to_char(d, 'YYYY-MM-DD'), to_char(d + interval '1 day', 'YYYY-MM-DD')), E'\n' ORDER BY d)
		FROM generate_series((now() AT TIME ZONE 'UTC')::date - 1, (now() AT TIME ZONE 'UTC')::date + 8, interval '1 day') AS d`)
}

// another opens the same schema with settings of the session.
func (f fixture) another(t *testing.T, settings string) fixture {
	t.Helper()
	db, err := open.Open(t.Context(), f.db.URL+settings)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s, err := postgres.New(db, f.db.Schema)
	require.NoError(t, err)
	other := f.db
	other.DB = db
	return fixture{Store: s, db: other}
}

func TestPrepareIsUTC(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.Equal(t, week(t, f), children(t, f))
	for _, zone := range []string{"Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin"} {
		f.exec(t, `DO $$ DECLARE c regclass; BEGIN
			FOR c IN SELECT inhrelid FROM pg_inherits WHERE inhparent = '{{s}}archive'::regclass LOOP EXECUTE 'DROP TABLE ' || c; END LOOP; END $$`)
		require.Empty(t, children(t, f))
		other := f.another(t, "&timezone="+zone+"&datestyle=German")
		require.NoError(t, other.Prepare(t.Context()))
		require.Equal(t, week(t, f), children(t, f), zone)
		other.archived(t, "default", "clock_timestamp()")
	}
}

func TestPrepareManyAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.MigrateDown(t.Context(), 0)
	require.NoError(t, err)
	up, err := f.MigrationSQL(0, 1)
	require.NoError(t, err)
	f.exec(t, up)
	require.Empty(t, children(t, f))
	var wg sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		wg.Go(func() {
			if i%2 == 0 {
				errs[i] = f.Prepare(t.Context())
			} else {
				errs[i] = f.EnsurePartition(t.Context())
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, week(t, f), children(t, f))
	require.Equal(t, 10, value[int](t, f, `SELECT count(*) FROM pg_inherits WHERE inhparent = '{{s}}archive_id'::regclass`), "each has its index")
}

// oldPartition adds a partition of so many days ago with one row.
func (f fixture) oldPartition(t *testing.T, days int) (name string) {
	t.Helper()
	name = value[string](t, f, fmt.Sprintf(`SELECT 'archive_' || to_char((now() AT TIME ZONE 'UTC')::date - %d, 'YYYYMMDD')`, days))
	f.exec(t, fmt.Sprintf(`DO $$ DECLARE d date := (now() AT TIME ZONE 'UTC')::date - %d; BEGIN
		CREATE TABLE {{s}}%s (LIKE {{s}}archive);
		EXECUTE format('ALTER TABLE {{s}}archive ATTACH PARTITION {{s}}%[2]s FOR VALUES FROM (%%L) TO (%%L)', d || ' 00:00+00', d + 1 || ' 00:00+00'); END $$`, days, name))
	f.archived(t, "default", fmt.Sprintf(`(now() AT TIME ZONE 'UTC')::date::timestamp AT TIME ZONE 'UTC' - interval '%d days' + interval '1 hour'`, days))
	return name
}

func retainAll(t *testing.T, f fixture, r store.Retention) (total store.Retained) {
	t.Helper()
	for {
		done, more, err := f.Retain(t.Context(), r)
		require.NoError(t, err)
		total.Partitions += done.Partitions
		total.Letters += done.Letters
		total.Keys += done.Keys
		total.Attempts += done.Attempts
		if !more {
			return total
		}
	}
}

func TestRetainPartitions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, days := range []int{4, 8, 9, 30} {
		f.oldPartition(t, days)
	}
	require.Zero(t, retainAll(t, f, store.Retention{}).Partitions, "no retention keeps for ever")
	require.Equal(t, 2, retainAll(t, f, store.Retention{Archive: 8 * 24 * time.Hour}).Partitions, "30 and 9 days ago; the eighth day is not over for long enough")
	require.Equal(t, 2, value[int](t, f, `SELECT count(*) FROM {{s}}archive`))
	require.Equal(t, 2, retainAll(t, f, store.Retention{Archive: time.Millisecond}).Partitions)
	require.Equal(t, week(t, f), children(t, f), "what Prepare makes is not retired")
	require.Zero(t, value[int](t, f, `SELECT count(*) FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relname ~ '^archive_[0-9]+$'
		AND NOT relispartition`, f.db.Schema), "nothing is left of them")
}

// Reported as timgit/pg-boss#282.
func TestRetainManyAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for days := range 6 {
		f.oldPartition(t, 20+days)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 6 {
				if _, _, err := f.Retain(t.Context(), store.Retention{Archive: time.Hour}); err != nil {
					t.Errorf("retain: %v", err)
				}
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool {
		_, more, err := f.Retain(t.Context(), store.Retention{Archive: time.Hour})
		return err == nil && !more && children(t, f) == week(t, f)
	}, 20*time.Second, 10*time.Millisecond)
}

// dropLast drops the last partition that Prepare makes.
func (f fixture) dropLast(t *testing.T) {
	t.Helper()
	f.exec(t, `DO $$ BEGIN EXECUTE format('DROP TABLE {{s}}archive_%s', to_char((now() AT TIME ZONE 'UTC')::date + 8, 'YYYYMMDD')); END $$`)
}

// insertBriskly archives a message and fails if it has to wait.
func (f fixture) insertBriskly(ctx context.Context) error {
	tx, err := f.db.DB.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, `SET LOCAL statement_timeout = '2s'`); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, f.text(`INSERT INTO {{s}}archive (id, lease_token, worker_id, created_at, finished_at, retry_count, max_retries,
		priority, losses, snoozes, replay_count, queue, kind) VALUES (nextval('{{s}}message_id'), 1, 1, now(), clock_timestamp(), 0, 5, 0, 0, 0, 0, 'q', 'k')`))
	if err != nil {
		return err
	}
	return tx.Commit()
}

// Reported as riverqueue/river#575.
func TestLongReaderDelaysNobody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	name := f.oldPartition(t, 20)
	f.dropLast(t)
	reader := f.begin(t, sql.LevelRepeatableRead)
	count := func() (n int) {
		require.NoError(t, reader.QueryRowContext(t.Context(), f.text(`SELECT count(*) FROM {{s}}archive`)).Scan(&n))
		return n
	}
	require.Equal(t, 1, count())

	require.NoError(t, f.insertBriskly(t.Context()))
	require.NoError(t, f.Prepare(t.Context()))
	require.NoError(t, f.insertBriskly(t.Context()))
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() { // settles go on all the while
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				if err := f.insertBriskly(t.Context()); err != nil {
					stopped <- err
					return
				}
			}
		}
	}()
	for range 3 {
		done, more, err := f.Retain(t.Context(), store.Retention{Archive: time.Hour})
		require.NoError(t, err)
		require.False(t, more)
		require.Zero(t, done.Partitions, "it is being read")
	}
	require.Equal(t, 1, count(), "the reader sees what it saw")
	close(stop)
	require.NoError(t, <-stopped)

	require.NoError(t, reader.Rollback())
	require.Eventually(t, func() bool {
		done, _, err := f.Retain(t.Context(), store.Retention{Archive: time.Hour})
		return err == nil && done.Partitions == 1
	}, 20*time.Second, 10*time.Millisecond)
	require.NotContains(t, children(t, f), name)
}

// A process that dies halfway leaves a pending detach; a snapshot that may
// still see the partition delays its end and nothing else.
func TestRetainFinishesPendingDetach(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	name := f.oldPartition(t, 20)
	f.oldPartition(t, 30)
	f.dropLast(t)
	reader := f.begin(t, sql.LevelRepeatableRead)
	var n int
	require.NoError(t, reader.QueryRowContext(t.Context(), f.text(`SELECT count(*) FROM {{s}}archive`)).Scan(&n))
	conn, err := f.db.DB.DB.Conn(t.Context())
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), `SET statement_timeout = '300ms'`)
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), f.text(`ALTER TABLE {{s}}archive DETACH PARTITION {{s}}`+name+` CONCURRENTLY`))
	require.Error(t, err)
	_, err = conn.ExecContext(t.Context(), `RESET statement_timeout`)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.True(t, value[bool](t, f, `SELECT bool_or(inhdetachpending) FROM pg_inherits WHERE inhparent = '{{s}}archive'::regclass`))

	done, more, err := f.Retain(t.Context(), store.Retention{Archive: time.Hour})
	require.NoError(t, err)
	require.False(t, more)
	require.Zero(t, done.Partitions)
	require.NoError(t, f.insertBriskly(t.Context()))
	require.NoError(t, f.Prepare(t.Context()), "a pending detach is not in the way of new partitions")
	require.NoError(t, reader.QueryRowContext(t.Context(), f.text(`SELECT count(*) FROM {{s}}archive`)).Scan(&n))
	require.Equal(t, 2, n)
	require.NoError(t, reader.Rollback())

	require.Eventually(t, func() bool {
		_, _, err := f.Retain(t.Context(), store.Retention{Archive: time.Hour})
		return err == nil && children(t, f) == week(t, f)
	}, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, 1, value[int](t, f, `SELECT count(*) FROM {{s}}`+name), "a table with rows was not emptied by the retention and stays")
}

func TestRetainRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	day := 24 * time.Hour
	waiting := f.letter(t, "", "")
	f.exec(t, `UPDATE {{s}}dead_letters SET dead_at = now() - interval '400 days'`)
	closed := f.letter(t, "idempotency_key, resolved_at, resolution", "'closed', now() - interval '91 days', 'resolved'")
	recent := f.letter(t, "resolved_at, resolution", "now() - interval '89 days', 'resolved'")
	replayed := f.letter(t, "idempotency_key", "'live'")
	f.key(t, replayed, "live", "'infinity'")
	f.key(t, closed, "closed", "'infinity'")
	require.NoError(t, f.Replay(t.Context(), replayed, operator))
	f.exec(t, `UPDATE {{s}}dead_letters SET resolved_at = now() - interval '91 days' WHERE message_id = $1`, replayed)
	done := f.archived(t, "default", "now()")
	f.key(t, done, "over", "now() - interval '1 s'")
	f.key(t, done, "running", "now() + interval '1 day'")
	for _, id := range []int64{waiting, closed, recent, replayed, done, 777, 777, 777} {
		f.attempt(t, id, "now() - interval '8 days'")
	}
	f.attempt(t, 778, "now()")

	nothing := retainAll(t, f, store.Retention{Batch: 2})
	require.Equal(t, store.Retained{Keys: 1}, nothing)
	total := retainAll(t, f, store.Retention{Archive: 7 * day, Resolved: 90 * day, Batch: 2})
	require.Equal(t, store.Retained{Letters: 2, Attempts: 3}, total)
	for _, id := range []int64{waiting, recent, replayed, done} {
		_, err := f.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, 1, value[int](t, f, `SELECT count(*) FROM {{s}}attempts WHERE message_id = $1`, id))
	}
	require.Zero(t, value[int](t, f, `SELECT count(*) FROM {{s}}attempts WHERE message_id IN ($1, 777)`, closed))
	require.Equal(t, "live running", value[string](t, f, `SELECT string_agg(key, ' ' ORDER BY key) FROM {{s}}keys`))

	f.exec(t, `DELETE FROM {{s}}audit_log`)
	total = retainAll(t, f, store.Retention{Dead: 365 * day, Batch: 2})
	require.Equal(t, store.Retained{Letters: 1}, total)
	require.Equal(t, "purge 1 retention", value[string](t, f, `SELECT concat_ws(' ', action, affected, actor) FROM {{s}}audit_log`),
		"a letter that waited does not go unrecorded")
}
