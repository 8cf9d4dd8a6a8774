package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// bench runs a reaper on a fake store and a fake clock.
type bench struct {
	*Reaper
	store   *fake
	journal *journal
	shift   atomic.Int64 // how far the wall clock is off
	stop    func()
}

// start makes a reaper and runs it until the test's bubble ends or stop is
// called.
func start(t *testing.T, f *fake, cfg Config) *bench {
	t.Helper()
	b := &bench{store: f, journal: &journal{}}
	if cfg.Logger == nil {
		cfg.Logger = b.journal.logger()
	}
	var err error
	b.Reaper, err = newReaper(f, cfg.withDefaults(), func() time.Time { return time.Now().Add(time.Duration(b.shift.Load())) })
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	var stopped bool
	b.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(t, <-done)
	}
	t.Cleanup(b.stop)
	synctest.Wait()
	return b
}

// pass lets time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestEveryJobRunsAtTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFake(), Config{Rescue: "@yearly", Sweep: "@yearly", Maintain: "@yearly"})
		for _, name := range []string{"bury", "rescue", "expire", "sweep", "prepare", "retain"} {
			require.Equal(t, 1, b.store.count(name), name)
		}
		pass(time.Hour)
		require.Equal(t, 1, b.store.count("retain"))
	})
}

func TestJobsRunByTheirSchedules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFake(), Config{Maintain: "30 2 * * *"}) // the bubble's time begins at midnight
		pass(5 * time.Minute)
		require.InDelta(t, 301, b.store.count("rescue"), 1, "every second")
		require.Equal(t, 6, b.store.count("sweep"), "every minute")
		require.Equal(t, 1, b.store.count("retain"))
		b.stop()
		require.Empty(t, b.journal.lines(t, ""), "nothing happened, nothing is said")

		b = start(t, newFake(), Config{Rescue: "@hourly", Sweep: "@hourly", Maintain: "30 2 * * *"})
		pass(3 * time.Hour)
		retained := b.store.times("retain")
		require.Len(t, retained, 2, "at the start and at 02:30")
		require.Equal(t, "02:30:00", retained[1].UTC().Format(time.TimeOnly))
		require.Empty(t, b.journal.lines(t, ""), "nothing happened, nothing is said")
	})
}

func TestJobNeverOverlapsItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		f := newFake()
		f.rescue = func(context.Context, int) ([]store.Rescued, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-time.After(10 * time.Second)
			return nil, nil
		}
		b := start(t, f, Config{})
		pass(95 * time.Second)
		require.EqualValues(t, 1, most.Load())
		require.Equal(t, 10, f.count("rescue"))
		require.Equal(t, 2, f.count("retain"), "a job that is slow does not hold up the others")
		require.True(t, b.Status().Rescue.Running)
	})
}

// Public reports: robfig/cron#26, robfig/cron#509.
func TestClockThatIsSetCausesOneRunAtMost(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := start(t, newFake(), Config{Rescue: "@every 2s", Sweep: "*/10 * * * *", Maintain: "@every 10m"})
				pass(time.Minute)
				rescued, swept, retained := b.store.count("rescue"), b.store.count("sweep"), b.store.count("retain")
				b.shift.Store(int64(jump))
				pass(recheck + time.Second)
				require.LessOrEqual(t, b.store.count("rescue"), rescued+4)
				require.Greater(t, b.store.count("rescue"), rescued, "it goes on at once")
				require.LessOrEqual(t, b.store.count("sweep"), swept+1)
				require.LessOrEqual(t, b.store.count("retain"), retained+1)
				swept, retained = b.store.count("sweep"), b.store.count("retain")
				pass(time.Hour)
				require.InDelta(t, swept+6, b.store.count("sweep"), 1)
				require.InDelta(t, retained+6, b.store.count("retain"), 1)
			})
		})
	}
}

// While a machine sleeps its timers stand still and the clock goes on. Public
// report: chenhg5/cc-connect#1808.
func TestRunThatWasMissedInSleepIsMadeUpForWithinSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFake(), Config{Rescue: "@daily", Sweep: "@daily", Maintain: "0 3 * * *"})
		pass(time.Hour)
		require.Equal(t, 1, b.store.count("retain"))
		b.shift.Store(int64(10 * 24 * time.Hour))
		pass(recheck)
		require.Equal(t, 2, b.store.count("retain"), "ten days were missed: one run makes up for them")
		pass(time.Hour)
		require.Equal(t, 2, b.store.count("retain"))
	})
}

// Public reports: bensheldon/good_job#1484, riverqueue/river#791.
func TestDailyJobRunsAlthoughTheProgramRestartsAllTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for range 10 {
			b := start(t, f, Config{Rescue: "@every 45s", Maintain: "@daily"})
			pass(30 * time.Second)
			b.stop()
		}
		require.Equal(t, 10, f.count("retain"))
		require.Equal(t, 10, f.count("rescue"))
	})
}

func TestPanicDoesNotStopLaterTicks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var n atomic.Int32
		f.rescue = func(context.Context, int) ([]store.Rescued, error) {
			if n.Add(1) <= 3 {
				panic("out of order")
			}
			return nil, nil
		}
		b := start(t, f, Config{})
		failed := b.Status().Rescue
		require.Equal(t, "panic: out of order", failed.LastError)
		require.True(t, failed.LastSuccess.IsZero())
		pass(10 * time.Second)
		s := b.Status().Rescue
		require.Greater(t, s.Ticks, int64(9))
		require.EqualValues(t, 3, s.Failures)
		require.Empty(t, s.LastError)
		require.False(t, s.LastSuccess.Before(s.LastStart))
		lines := b.journal.lines(t, "the reaper's job fails, will try again")
		require.Len(t, lines, 1, "once, not with every tick")
		require.Contains(t, lines[0]["stack"], "tick_internal_test.go")
		require.Len(t, b.journal.lines(t, "the reaper's job works again"), 1)
	})
}

// A handler of log lines may panic as well.
type panicky struct{ slog.Handler }

func (panicky) Enabled(context.Context, slog.Level) bool  { return true }
func (panicky) Handle(context.Context, slog.Record) error { panic("no log today") }

func TestLogHandlerThatPanicsStopsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.expire = func(context.Context, int) ([]store.Rescued, error) {
			return []store.Rescued{{Decision: message.DecisionExpired, Dead: true}}, nil
		}
		f.prepare = func(context.Context) error { return errors.New("no room") }
		b := start(t, f, Config{Logger: slog.New(panicky{})})
		pass(10 * time.Second)
		require.Greater(t, f.count("expire"), 9)
		require.Contains(t, b.Status().Rescue.LastError, "no log today")
		require.Contains(t, b.Status().Maintain.LastError, "no room")
	})
}

func TestOutageIsToldOnceForAllJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var away atomic.Bool
		refuse := func() error {
			if away.Load() {
				return fmt.Errorf("%w: connection refused, port %d", store.ErrUnavailable, time.Now().UnixNano())
			}
			return nil
		}
		f.bury = func(context.Context) ([]int64, error) { return nil, refuse() }
		f.sweep = func(context.Context, int64, int) ([]store.Rescued, int64, error) { return nil, 0, refuse() }
		f.prepare = func(context.Context) error { return refuse() }
		b := start(t, f, Config{})
		for range 2 {
			away.Store(true)
			pass(5 * time.Minute)
			require.NotEmpty(t, b.Status().Rescue.LastError)
			require.NotEmpty(t, b.Status().Maintain.LastError)
			away.Store(false)
			pass(5 * time.Minute)
			require.Empty(t, b.Status().Maintain.LastError)
		}
		require.Len(t, b.journal.lines(t, "the database is not available, will try again"), 2)
		require.Len(t, b.journal.lines(t, "the database is available again"), 2)
		require.Len(t, b.journal.lines(t, ""), 4)
	})
}

func TestErrorThatStaysIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		why := errors.New("permission denied")
		f.expire = func(context.Context, int) ([]store.Rescued, error) { return nil, why }
		b := start(t, f, Config{})
		pass(10 * time.Minute)
		require.Len(t, b.journal.lines(t, ""), 1)
		require.Contains(t, b.Status().Rescue.LastError, "permission denied")
		require.Equal(t, f.count("bury"), f.count("rescue"))
	})
}

func TestStepThatHangsIsEndedByItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.bury = func(ctx context.Context) ([]int64, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		b := start(t, f, Config{Timeout: 7 * time.Second})
		pass(7 * time.Second)
		require.Equal(t, 1, f.count("rescue"), "the rest of the tick goes on")
		require.Contains(t, b.Status().Rescue.LastError, "deadline exceeded")
	})
}

func TestRunEndsWithinTwoSecondsAndKnowsWhatItDid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.rescue = func(ctx context.Context, _ int) ([]store.Rescued, error) {
			select {
			case <-time.After(time.Second):
				return []store.Rescued{{Decision: message.DecisionTimedOut, Dead: true}}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		f.prepare = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		b := start(t, f, Config{})
		began := time.Now()
		b.stop()
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Len(t, b.journal.lines(t, "message is dead"), 1)
		require.Len(t, b.journal.lines(t, ""), 2, "an end that was asked for is no trouble")
		require.Zero(t, f.count("expire"), "nothing new is begun")
		require.Empty(t, b.Status().Maintain.LastError)
		require.True(t, b.Status().Maintain.LastSuccess.IsZero())
	})
}

func TestRunOnlyOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFake(), Config{})
		require.ErrorIs(t, b.Run(t.Context()), ErrAlreadyRun)
		b.stop()
		require.ErrorIs(t, b.Run(t.Context()), ErrAlreadyRun)
	})
}

func TestSchemaIsChecked(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]error{0: message.ErrSchemaMissing, 2: message.ErrSchemaNewer} {
		f := newFake()
		f.version = version
		r, err := newReaper(f, Config{}.withDefaults(), time.Now)
		require.NoError(t, err)
		_, err = r.RunOnce(t.Context())
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, r.Run(t.Context()), want)
		require.Empty(t, f.calls)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := newReaper(newFake(), Config{}.withDefaults(), time.Now)
	require.NoError(t, err)
	require.NoError(t, r.Run(ended))
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	_, err := newReaper(newFake(), Config{
		Rescue: "TZ=0", Sweep: "@every 0s", Maintain: "0 0 30 2 *", ArchiveRetention: 7, ResolvedRetention: 90, DeadRetention: 1,
		Batch: -1, Timeout: -time.Second,
	}.withDefaults(), time.Now)
	var fields []string
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		if list, ok := e.(interface{ Unwrap() []error }); ok {
			for _, e := range list.Unwrap() {
				var invalid *message.ValidationError
				require.ErrorAs(t, e, &invalid)
				fields = append(fields, invalid.Field)
			}
			continue
		}
		var invalid *message.ValidationError
		require.ErrorAs(t, e, &invalid)
		fields = append(fields, invalid.Field)
	}
	require.ElementsMatch(t, []string{
		"Rescue", "Sweep", "Maintain", "ArchiveRetention", "ResolvedRetention", "DeadRetention", "Batch", "Timeout",
	}, fields)
}

func TestRetentionOfZeroIsTheDefaultAndNegativeForEver(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cfg  Config
		want store.Retention
	}{
		{Config{}, store.Retention{Archive: DefaultArchiveRetention, Resolved: DefaultResolvedRetention, Batch: DefaultBatch}},
		{Config{ArchiveRetention: -1, ResolvedRetention: -time.Hour, DeadRetention: -1}, store.Retention{Batch: DefaultBatch}},
		{
			Config{ArchiveRetention: time.Hour, ResolvedRetention: time.Minute, DeadRetention: time.Second, Batch: 7},
			store.Retention{Archive: time.Hour, Resolved: time.Minute, Dead: time.Second, Batch: 7},
		},
	} {
		f := newFake()
		var got store.Retention
		f.retain = func(_ context.Context, r store.Retention) (store.Retained, bool, error) {
			got = r
			return store.Retained{}, false, nil
		}
		r, err := newReaper(f, test.cfg.withDefaults(), time.Now)
		require.NoError(t, err)
		_, err = r.RunOnce(t.Context())
		require.NoError(t, err)
		require.Equal(t, test.want, got)
	}
}
