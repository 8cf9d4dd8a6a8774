package worker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// lineTasks returns n tasks, numbered from first on.
func lineTasks(first, n int, payload string) []*task {
	tasks := make([]*task, n)
	for i := range tasks {
		tasks[i] = &task{number: int64(first + i), m: &store.Claimed{Message: message.Message{Payload: payload}}}
	}
	return tasks
}

func numbers(tasks []*task) (out []int64) {
	for _, t := range tasks {
		out = append(out, t.number)
	}
	return out
}

func TestLineLetsSoManyRunInTheirOrder(t *testing.T) {
	t.Parallel()
	l := newLine(2, 10)
	require.Equal(t, []int64{1, 2}, numbers(l.enter(lineTasks(1, 4, ""), time.Now())))
	require.Empty(t, l.enter(lineTasks(5, 3, ""), time.Now()))
	for want := int64(3); want <= 5; want++ {
		next := l.leave()
		require.True(t, next.turn)
		require.Equal(t, want, next.number)
	}
	gone := l.quit(func(t *task) bool { return t.number == 6 })
	require.Equal(t, []int64{6}, numbers(gone))
	require.False(t, gone[0].turn)
	require.Equal(t, int64(7), l.leave().number)
	require.Nil(t, l.leave())
	require.Equal(t, []int64{8}, numbers(l.enter(lineTasks(8, 2, ""), time.Now())), "one still runs")
	require.Equal(t, int64(9), l.leave().number)
	require.Nil(t, l.leave())
	require.Nil(t, l.leave())
	require.Equal(t, []int64{10, 11}, numbers(l.enter(lineTasks(10, 3, ""), time.Now())))
}

// work lets n messages through a line, each round of which takes as long.
func work(l *line, n int, each time.Duration, payload string) {
	for range n / l.size {
		l.enter(lineTasks(0, l.size, payload), time.Now())
		<-time.After(each)
		for range l.size {
			l.leave()
		}
	}
}

func TestLineKnowsHowMuchIsDoneSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLine(10, 310)
		require.Zero(t, l.ahead(), "nothing is known yet")
		work(l, 10, 10*time.Millisecond, "")
		require.Equal(t, 40, l.ahead(), "50 in 50 ms, 10 of which are in hand")
		work(l, 10, time.Millisecond, "")
		require.Equal(t, 310, l.ahead(), "no more than is allowed")
		<-time.After(time.Minute)
		require.Zero(t, l.ahead(), "that was long ago")
		work(l, 10, time.Second, "")
		require.Zero(t, l.ahead(), "they are slow")
		work(l, 10, time.Millisecond, strings.Repeat("x", aheadBytes/100))
		require.Equal(t, 100, l.ahead(), "bounded by what the payloads take")

		// Time in which none runs does not count, and those that run do.
		l = newLine(10, 310)
		work(l, 10, 10*time.Millisecond, "")
		<-time.After(900 * time.Millisecond)
		require.Equal(t, 40, l.ahead())
		l.enter(lineTasks(0, 20, ""), time.Now())
		<-time.After(100 * time.Millisecond)
		for range 10 {
			l.leave()
		}
		require.Zero(t, l.ahead(), "5 in 50 ms")
	})
}

func TestLineHoldsNothingAheadUnlessItIsAllowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLine(10, 0)
		work(l, 100, time.Millisecond, "")
		require.Zero(t, l.ahead())
	})
}

func TestLargestClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{line: newLine(10, maxAhead)}
		require.Equal(t, maxClaim, q.most())
		work(q.line, 10, 10*time.Microsecond, "")
		require.Equal(t, maxAhead, q.most(), "what is claimed ahead may be more")
		work(q.line, 10, 10*time.Microsecond, strings.Repeat("x", aheadBytes/100))
		require.Equal(t, maxClaim, q.most(), "but not of large payloads")
	})
}

func TestSlotsWaitUntilHalfOfWhatIsAheadIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(10)
		ahead := func() int { return 100 }
		require.Equal(t, 110, s.wait(t.Context(), ahead))
		s.take(110)
		got := 0
		go func() { got = s.wait(t.Context(), ahead) }()
		s.give(49)
		synctest.Wait()
		require.Zero(t, got)
		s.give(2)
		synctest.Wait()
		require.Equal(t, 51, got)

		// Without anything ahead, for a free slot.
		s.take(51)
		got = 0
		go func() { got = s.wait(t.Context(), func() int { return 0 }) }()
		s.give(100)
		synctest.Wait()
		require.Zero(t, got)
		s.give(1)
		synctest.Wait()
		require.Equal(t, 1, got)
	})
}
