package worker_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

func TestExponential(t *testing.T) {
	t.Parallel()
	const known, unknown = message.FailureTransient, message.FailureUnknown
	for name, test := range map[string]struct {
		policy  worker.Exponential
		attempt int
		kind    message.FailureKind
		want    time.Duration
	}{
		"first":               {worker.Exponential{Jitter: -1}, 1, known, 2 * time.Second},
		"second":              {worker.Exponential{Jitter: -1}, 2, known, 4 * time.Second},
		"tenth":               {worker.Exponential{Jitter: -1}, 10, known, 1024 * time.Second},
		"at the cap":          {worker.Exponential{Jitter: -1}, 12, known, time.Hour},
		"unknown":             {worker.Exponential{Jitter: -1}, 1, unknown, 4 * time.Second},
		"unknown at the cap":  {worker.Exponential{Jitter: -1}, 12, unknown, time.Hour},
		"no attempt":          {worker.Exponential{Jitter: -1}, 0, known, 2 * time.Second},
		"negative attempt":    {worker.Exponential{Jitter: -1}, -7, known, 2 * time.Second},
		"overflow":            {worker.Exponential{Jitter: -1}, 64, known, time.Hour},
		"far overflow":        {worker.Exponential{Jitter: -1}, math.MaxInt, known, time.Hour},
		"overflow, no cap":    {worker.Exponential{Jitter: -1, Cap: math.MaxInt64}, 5000, known, math.MaxInt64},
		"largest base":        {worker.Exponential{Jitter: -1, Base: math.MaxInt64}, 3, unknown, time.Hour},
		"negative base":       {worker.Exponential{Jitter: -1, Base: -time.Hour}, 1, known, 2 * time.Second},
		"negative cap":        {worker.Exponential{Jitter: -1, Cap: -1}, 100, known, time.Hour},
		"cap below base":      {worker.Exponential{Jitter: -1, Cap: time.Second}, 1, known, time.Second},
		"smallest base":       {worker.Exponential{Jitter: -1, Base: 1}, 1, known, 1},
		"base and cap of own": {worker.Exponential{Jitter: -1, Base: time.Minute, Cap: 3 * time.Minute}, 2, known, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, test.policy.Delay(worker.Failure{Attempt: test.attempt, Kind: test.kind}))
		})
	}
}

// Reported as flowchartsman/retry#4, sethvargo/go-retry#39 and
// sidekiq/sidekiq#480.
func TestExponentialJitter(t *testing.T) {
	t.Parallel()
	const base = 10 * time.Second
	for name, test := range map[string]struct {
		jitter, low, high float64
	}{
		"default":  {0, 0.75, 1.25},
		"NaN":      {math.NaN(), 0.75, 1.25},
		"none":     {-1, 1, 1},
		"-Inf":     {math.Inf(-1), 1, 1},
		"tiny":     {1e-300, 1, 1},
		"half":     {0.5, 0.5, 1.5},
		"whole":    {1, 0, 2},
		"too much": {1e9, 0, 2},
		"Inf":      {math.Inf(1), 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := worker.Exponential{Base: base, Jitter: test.jitter}
			least, most := time.Duration(math.MaxInt64), time.Duration(0)
			for range 10_000 {
				d := policy.Delay(worker.Failure{Attempt: 1})
				least, most = min(least, d), max(most, d)
			}
			low, high := time.Duration(test.low*float64(base)), time.Duration(test.high*float64(base))
			require.Positive(t, least)
			require.GreaterOrEqual(t, least, low)
			require.LessOrEqual(t, most, high)
			// They spread over the whole of it.
			tenth := (high - low) / 10
			require.LessOrEqual(t, least, low+tenth)
			require.GreaterOrEqual(t, most, high-tenth)
		})
	}
	for range 1000 {
		for _, policy := range []worker.Exponential{{Base: 1, Jitter: 1}, {Base: 1, Cap: 1}, {Cap: 1, Jitter: 1}} {
			for _, attempt := range []int{1, 40, 1000} {
				d := policy.Delay(worker.Failure{Attempt: attempt})
				require.Positive(t, d)
				require.LessOrEqual(t, d, worker.DefaultCap)
			}
		}
		full := worker.Exponential{Cap: math.MaxInt64, Jitter: 1}
		require.Positive(t, full.Delay(worker.Failure{Attempt: 1000}))
		require.LessOrEqual(t, worker.Exponential{}.Delay(worker.Failure{Attempt: 1000}), worker.DefaultCap)
	}
}

func TestDelays(t *testing.T) {
	t.Parallel()
	d := worker.Delays{10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}
	for attempt, want := range map[int]time.Duration{
		-1: 10 * time.Second, 0: 10 * time.Second, 1: 10 * time.Second, 2: 30 * time.Second, 3: time.Minute,
		5: 5 * time.Minute, 6: 5 * time.Minute, math.MaxInt: 5 * time.Minute,
	} {
		require.Equal(t, want, d.Delay(worker.Failure{Attempt: attempt}), attempt)
	}
	require.Zero(t, worker.Delays{}.Delay(worker.Failure{Attempt: 1}))
}

// The most particular policy counts, and knows what failed.
func TestRetryPolicyOfWhom(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		asked := make(chan worker.Failure, 1)
		w, _ := r.worker(worker.Config{
			RetryPolicy: worker.Delays{time.Hour},
			Queues: []worker.Queue{
				{Name: "default"}, {Name: "own", RetryPolicy: worker.Delays{2 * time.Hour}},
			},
		})
		fail := func(context.Context, *worker.Message[job]) error { return errBroken }
		worker.Handle(w, fail, nil)
		worker.Handle(w, func(context.Context, *worker.Message[other]) error { return wrap(errBroken) },
			&worker.HandlerOptions{RetryPolicy: worker.RetryFunc(func(f worker.Failure) time.Duration {
				asked <- f
				return 3 * time.Hour
			})})
		inDefault, inOwn, ofKind := r.enqueue(job{}, nil), r.enqueue(job{}, in("own")), r.enqueue(other{N: 1}, in("own"))
		r.start(w)
		for id, want := range map[int64]time.Duration{inDefault: time.Hour, inOwn: 2 * time.Hour, ofKind: 3 * time.Hour} {
			until(t, "it failed", func() bool { return len(r.attempts(id)) == 1 })
			a := r.attempts(id)[0]
			require.Equal(t, want, a.RetryAfter.Sub(a.FinishedAt).Round(time.Minute))
		}
		f := receive(t, asked)
		require.Equal(t, ofKind, f.Message.ID)
		require.Equal(t, 1, f.Attempt)
		require.Equal(t, message.FailureUnknown, f.Kind)
		require.ErrorIs(t, f.Err, errBroken)
	})
}

// No delay that a policy gives can lose a message, and a policy that panics
// is not asked.
// Reported as hibiken/asynq#1132.
func TestRetryPolicyMayBeOdd(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		odd := map[string]time.Duration{"zero": 0, "negative": math.MinInt64, "huge": math.MaxInt64}
		w, log := r.worker(worker.Config{RetryPolicy: worker.RetryFunc(func(f worker.Failure) time.Duration {
			d, ok := odd[f.Message.CorrelationID]
			if !ok {
				panic("no delay")
			}
			return d
		})})
		seen := make(chan string, 10)
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			if m.Attempt == 2 {
				seen <- m.CorrelationID
				return nil
			}
			return context.DeadlineExceeded // transient
		}, nil)
		var huge, panics int64
		for _, name := range []string{"zero", "negative", "huge", "panics"} {
			id := r.enqueue(job{}, correlated(name))
			switch name {
			case "huge":
				huge = id
			case "panics":
				panics = id
			}
		}
		r.start(w)
		var came []string
		for range 3 {
			came = append(came, receive(t, seen))
		}
		require.ElementsMatch(t, []string{"zero", "negative", "panics"}, came)
		a := r.attempts(panics)[0]
		require.InDelta(t, 2*time.Second, a.RetryAfter.Sub(a.FinishedAt), float64(600*time.Millisecond)) // the default policy
		require.Len(t, log.lines(t, "callback panicked, the default is used"), 1)
		a = r.attempts(huge)[0]
		require.Equal(t, message.MaxDelay, a.RetryAfter.Sub(a.FinishedAt).Round(time.Minute))
	})
}
