package check_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/torture/check"
	"github.com/styxmq/styx/internal/torture/history"
)

const second = int64(time.Second / time.Microsecond)

// run is a history that can be changed before it is judged.
type run struct {
	events []history.Event
	final  check.Final
}

func (r *run) event(at int64, process string, e history.Event) {
	e.At, e.Process = at*second, process
	r.events = append(r.events, e)
}

// kept is a run that keeps every promise: message 1 succeeds at once; 2 fails,
// is lost with its worker, and is completed in a transaction; 3 dies, is
// replayed and dies again; 4 was never acknowledged and is there; 5 is not.
func kept() *run {
	r := &run{}
	r.event(1, "p", history.Event{Kind: history.Try, Ops: []string{"a", "b", "c"}})
	r.event(1, "p", history.Event{Kind: history.Ack, Ops: []string{"a", "b", "c"}, IDs: []int64{1, 2, 3}})
	r.event(1, "p", history.Event{Kind: history.Try, Ops: []string{"d", "e", "f"}})
	r.event(1, "p", history.Event{Kind: history.Undone, Ops: []string{"f"}})
	attempt := func(at, id, token, worker int64, process string, end history.Kind) {
		r.event(at, process, history.Event{Kind: history.Start, ID: id, Token: token, Worker: worker})
		if end != "" {
			r.event(at+1, process, history.Event{Kind: end, ID: id, Token: token})
		}
	}
	attempt(2, 1, 1, 7, "w1", history.Ready)
	attempt(2, 2, 1, 7, "w1", history.Fail)
	attempt(4, 2, 2, 7, "w1", "")
	r.event(5, "coordinator", history.Event{Kind: history.Gone, Name: "w1"})
	attempt(25, 2, 3, 8, "w2", history.Ready)
	attempt(2, 3, 1, 8, "w2", history.Fail)
	attempt(5, 3, 2, 8, "w2", history.Fail)
	attempt(2, 4, 1, 8, "w2", history.Ready)
	r.final = check.Final{
		Messages: []check.Message{
			{Lease: check.Lease{ID: 1, Token: 1}, Op: "a", Place: check.Succeeded, Worker: 7, Budget: 5, At: 3 * second},
			{Lease: check.Lease{ID: 2, Token: 3}, Op: "b", Place: check.Succeeded, Worker: 8, Retries: 2, Budget: 5, At: 26 * second, CompletedInTx: true},
			{Lease: check.Lease{ID: 3, Token: 2}, Op: "c", Place: check.Dead, Worker: 8, Retries: 1, Budget: 1, At: 6 * second},
			{Lease: check.Lease{ID: 4, Token: 1}, Op: "d", Place: check.Succeeded, Worker: 8, Budget: 5, At: 3 * second},
		},
		Attempts: []check.Attempt{
			{Lease: check.Lease{ID: 2, Token: 1}, Worker: 7, Outcome: "retried", At: 3 * second},
			{Lease: check.Lease{ID: 2, Token: 2}, Worker: 7, Outcome: "retried", Reason: "worker_lost", At: 21 * second},
			{Lease: check.Lease{ID: 3, Token: 1}, Worker: 8, Outcome: "dead", At: 3 * second},
			{Lease: check.Lease{ID: 3, Token: 2}, Worker: 8, Outcome: "dead", At: 6 * second},
		},
		Workers: []check.Worker{
			{ID: 7, Process: "w1", Beat: 5 * second, Dead: 21 * second, Lease: 15 * second},
			{ID: 8, Process: "w2", Beat: 30 * second, Lease: 15 * second},
		},
		Effects: []check.Lease{{ID: 2, Token: 3}},
	}
	return r
}

func (r *run) judge() *check.Report {
	return check.Run(r.events, &r.final, check.Settings{Tolerance: second / 4, MinTimeout: second})
}

// drop removes the events that match.
func (r *run) drop(match func(e history.Event) bool) {
	var left []history.Event
	for _, e := range r.events {
		if !match(e) {
			left = append(left, e)
		}
	}
	r.events = left
}

func TestKept(t *testing.T) {
	t.Parallel()
	report := kept().judge()
	require.Empty(t, report.Violations)
	require.True(t, report.OK())
	require.Equal(t, 3, report.Acknowledged)
	require.Equal(t, 6, report.Attempted)
	require.Equal(t, 1, report.Recovered)
	require.Equal(t, 7, report.Started)
	require.Equal(t, 1, report.Reexecuted)
	require.Equal(t, []time.Duration{20 * time.Second}, report.Recovery)
	require.True(t, strings.HasPrefix(report.Line(), "acknowledged 3, lost 0, stuck 0, unexpected 0,"), report.Line())
}

func TestBroken(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		breaks  func(r *run)
		promise check.Promise
	}{
		"acknowledged and gone": {func(r *run) { r.final.Messages = r.final.Messages[1:] }, check.Lost},
		"never acknowledged, ran and gone": {func(r *run) {
			r.final.Messages = r.final.Messages[:3]
		}, check.Lost},
		"acknowledged without an id and gone": {func(r *run) {
			r.event(1, "p", history.Event{Kind: history.Ack, Ops: []string{"e"}, IDs: []int64{0}})
		}, check.Lost},
		"pending":    {func(r *run) { r.final.Messages[0].Place = check.Pending }, check.Stuck},
		"processing": {func(r *run) { r.final.Messages[0].Place = check.Processing }, check.Stuck},
		"from nowhere": {func(r *run) {
			r.final.Messages = append(r.final.Messages, check.Message{Lease: check.Lease{ID: 9}, Op: "z", Place: check.Dead})
		}, check.Unexpected},
		"rolled back": {func(r *run) {
			r.final.Messages = append(r.final.Messages, check.Message{Lease: check.Lease{ID: 9}, Op: "f", Place: check.Dead})
		}, check.Unexpected},
		"two messages of one enqueue": {func(r *run) {
			r.final.Messages = append(r.final.Messages, check.Message{Lease: check.Lease{ID: 9}, Op: "a", Place: check.Dead})
		}, check.StoredTwice},
		"another id": {func(r *run) {
			r.event(1, "p", history.Event{Kind: history.Ack, Ops: []string{"d"}, IDs: []int64{5}})
		}, check.StoredTwice},
		"succeeded and dead": {func(r *run) {
			r.final.Messages = append(r.final.Messages, check.Message{Lease: check.Lease{ID: 1}, Op: "a", Place: check.Dead})
		}, check.TwoPlaces},
		"one token twice": {func(r *run) {
			r.event(9, "w2", history.Event{Kind: history.Start, ID: 1, Token: 1, Worker: 8})
		}, check.TokenReused},
		"taken from its owner": {func(r *run) {
			r.final.Attempts = r.final.Attempts[1:]
		}, check.TwoOwners},
		"begun before the end of the last": {func(r *run) {
			r.final.Attempts[0].At = 10 * second
		}, check.TwoOwners},
		"success that nobody reported": {func(r *run) {
			r.drop(func(e history.Event) bool { return e.Kind == history.Ready && e.ID == 1 })
		}, check.StaleSettle},
		"success before the handler's": {func(r *run) { r.final.Messages[0].At = 2 * second }, check.StaleSettle},
		"success of another worker":    {func(r *run) { r.final.Messages[0].Worker = 8 }, check.StaleSettle},
		"run after its success": {func(r *run) {
			r.event(9, "w2", history.Event{Kind: history.Start, ID: 1, Token: 2, Worker: 8})
		}, check.StaleSettle},
		"failure that nobody reported": {func(r *run) {
			r.drop(func(e history.Event) bool { return e.Kind == history.Fail && e.ID == 2 })
		}, check.StaleSettle},
		"failure of another worker": {func(r *run) { r.final.Attempts[0].Worker = 8 }, check.StaleSettle},
		"refused before its end": {func(r *run) {
			r.event(10, "w1", history.Event{Kind: history.Rejected, ID: 3, Token: 1})
			r.final.Attempts[2].At = 30 * second
		}, check.FalseRejection},
		"refused, though the worker went on to live": {func(r *run) {
			r.event(4, "w1", history.Event{Kind: history.Rejected, ID: 2, Token: 2})
			r.final.Attempts[1].At, r.final.Messages[1].CompletedInTx = 22*second, false
		}, check.FalseRejection},
		"refused, and never ended": {func(r *run) {
			r.event(3, "w2", history.Event{Kind: history.Rejected, ID: 3, Token: 1})
			r.final.Attempts = append(r.final.Attempts[:2], r.final.Attempts[3:]...)
		}, check.FalseRejection},
		"taken from a consumer within its lease": {func(r *run) {
			r.event(4, "c", history.Event{Kind: history.Start, ID: 4, Token: 2, Worker: -1, Until: 9 * second})
			r.final.Attempts = append(r.final.Attempts, check.Attempt{
				Lease: check.Lease{ID: 4, Token: 2}, Worker: -1, Outcome: "retried", Reason: "timed_out", At: 8 * second,
			})
		}, check.EarlyLoss},
		"a consumer that was taken for a worker": {func(r *run) {
			r.final.Attempts[1].Worker = -1
		}, check.EarlyLoss},
		"given back by nobody who held it": {func(r *run) {
			r.event(4, "c", history.Event{Kind: history.Start, ID: 4, Token: 2, Worker: -1, Until: 9 * second})
			r.final.Attempts = append(r.final.Attempts, check.Attempt{
				Lease: check.Lease{ID: 4, Token: 2}, Worker: -1, Outcome: "released", Reason: "released", At: 5 * second,
			})
		}, check.StaleSettle},
		"taken from a living worker": {func(r *run) {
			r.final.Workers[0].Dead, r.final.Workers[0].Beat = 0, 20*second
		}, check.EarlyLoss},
		"buried within its lease": {func(r *run) {
			r.final.Workers[0].Dead = 6 * second
		}, check.EarlyLoss},
		"buried within its lease, left later": {func(r *run) {
			r.final.Workers[0].Dead = 6 * second
			r.event(9, "w1", history.Event{Kind: history.Draining})
		}, check.EarlyLoss},
		"timed out at once": {func(r *run) {
			r.final.Attempts[1].Reason, r.final.Attempts[1].At = "timed_out", 4*second
		}, check.EarlyLoss},
		"effect twice": {func(r *run) {
			r.final.Effects = append(r.final.Effects, check.Lease{ID: 2, Token: 3})
		}, check.DuplicateEffect},
		"effect without success": {func(r *run) {
			r.final.Effects = append(r.final.Effects, check.Lease{ID: 3, Token: 1})
		}, check.TornEffect},
		"success without effect": {func(r *run) { r.final.Effects = nil }, check.TornEffect},
		"charged too often":      {func(r *run) { r.final.Messages[1].Retries = 6 }, check.OverBudget},
		"a process that broke": {func(r *run) {
			r.event(9, "coordinator", history.Event{Kind: history.Broken, Name: "w2"})
		}, check.BrokenProcess},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := kept()
			test.breaks(r)
			report := r.judge()
			require.False(t, report.OK())
			require.NotZero(t, report.Broken[test.promise], report.Violations)
			var out bytes.Buffer
			report.Write(&out)
			require.Contains(t, out.String(), "BROKEN "+string(test.promise))
		})
	}
}

// A loss that is not the message's first, or is followed by another before it
// begins, is told apart.
func TestFurtherLosses(t *testing.T) {
	t.Parallel()
	lost := func(r *run, token, at int64) {
		r.final.Attempts = append(r.final.Attempts, check.Attempt{
			Lease: check.Lease{ID: 2, Token: token}, Worker: 7, Outcome: "retried", Reason: "worker_lost", At: at * second,
		})
	}
	r := kept()
	lost(r, 1, 3)
	r.final.Attempts = r.final.Attempts[1:]
	report := r.judge()
	require.Empty(t, report.Recovery)
	require.Equal(t, []time.Duration{20 * time.Second}, report.Again)

	r = kept()
	for i := range r.events {
		if e := &r.events[i]; e.ID == 2 && e.Token == 3 {
			e.Token = 4
		}
	}
	r.final.Messages[1].Token, r.final.Effects[0].Token = 4, 4
	lost(r, 3, 24)
	report = r.judge()
	require.Empty(t, report.Violations)
	require.Empty(t, report.Recovery)
	require.Equal(t, []time.Duration{20 * time.Second}, report.Again)
}

// A worker that was asked to end in good order may leave within its lease.
func TestDrainingWorkerMayLeave(t *testing.T) {
	t.Parallel()
	r := kept()
	r.final.Workers[0].Dead = 6 * second
	r.event(4, "w1", history.Event{Kind: history.Draining})
	require.Empty(t, r.judge().Violations)
}

// A worker that finds itself dead need not wait for the reaper to say so.
func TestDeadWorkerGivesUp(t *testing.T) {
	t.Parallel()
	r := kept()
	r.final.Messages[1].CompletedInTx = false
	r.event(20, "w1", history.Event{Kind: history.Rejected, ID: 2, Token: 2})
	require.Empty(t, r.judge().Violations)
}

// What was claimed over HTTP ends with its lease, is given back by the daemon
// when nobody takes it, and refuses what comes too late.
func TestRemoteLease(t *testing.T) {
	t.Parallel()
	r := kept()
	remote := func(token, at int64, outcome, reason string) check.Attempt {
		return check.Attempt{Lease: check.Lease{ID: 4, Token: token}, Worker: -1, Outcome: outcome, Reason: reason, At: at * second}
	}
	r.event(2, "c", history.Event{Kind: history.Start, ID: 4, Token: 2, Worker: -1, Until: 6 * second})
	r.event(7, "c", history.Event{Kind: history.Fail, ID: 4, Token: 2})
	r.event(8, "c", history.Event{Kind: history.Rejected, ID: 4, Token: 2})
	r.event(9, "c", history.Event{Kind: history.Start, ID: 4, Token: 4, Worker: -1, Until: 13 * second})
	r.event(10, "c", history.Event{Kind: history.Ready, ID: 4, Token: 4})
	r.drop(func(e history.Event) bool { return e.ID == 4 && e.Token == 1 })
	m := &r.final.Messages[3]
	m.Token, m.Worker, m.Retries, m.At = 4, -1, 1, 11*second
	r.final.Attempts = append(r.final.Attempts, remote(2, 7, "retried", "timed_out"), remote(3, 8, "released", "released"))
	require.Empty(t, r.judge().Violations)
}

// The database's clock steps back by an hour and forward again: what it shows
// meanwhile is compared with nothing, and what is overdue by the step is.
func TestSteppedClock(t *testing.T) {
	t.Parallel()
	r := kept()
	for i := range r.events { // an hour after the beginning of time
		r.events[i].At += 7200 * second
	}
	const back = 3600
	for i := range r.final.Messages {
		r.final.Messages[i].At += 7200 * second
	}
	for i := range r.final.Attempts {
		r.final.Attempts[i].At += 7200 * second
	}
	for i := range r.final.Workers {
		w := &r.final.Workers[i]
		if w.Beat += 7200 * second; w.Dead != 0 {
			w.Dead += 7200 * second
		}
	}
	require.Empty(t, r.judge().Violations)

	r.final.Messages[0].At -= back * second
	r.final.Attempts[3].At -= back * second
	lost := &r.final.Attempts[1]
	lost.Reason, lost.At = "timed_out", 7204*second+second/2
	require.NotEmpty(t, r.judge().Violations, "without a step")
	r.event(7202, "coordinator", history.Event{Kind: history.Stepped})
	r.event(7204, "coordinator", history.Event{Kind: history.Stepped})
	require.Empty(t, r.judge().Violations)
	r.final.Messages[1].At = 7202 * second // of the time after it
	require.NotZero(t, r.judge().Broken[check.StaleSettle])
}

// Where clocks are apart, order is judged by tokens alone.
func TestSkewedClocks(t *testing.T) {
	t.Parallel()
	r := kept()
	r.final.Messages[0].At -= 3600 * second
	r.final.Attempts[0].At += 3600 * second
	require.Empty(t, check.Run(r.events, &r.final, check.Settings{Tolerance: -1, MinTimeout: second}).Violations)
}
