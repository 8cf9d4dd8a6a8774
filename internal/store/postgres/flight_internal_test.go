package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// tower runs flights whose statements end when told.
type tower struct {
	flights[int, int]
	mu      sync.Mutex
	flown   [][]int
	land    chan error // one for each statement
	callers sync.WaitGroup
}

func newTower(most int) *tower {
	tw := &tower{land: make(chan error)}
	tw.most = most
	tw.board = func(waiting []*passenger[int, int]) int { return min(len(waiting), 3) }
	tw.run = func(ctx context.Context, wants []int) ([]int, error) {
		tw.mu.Lock()
		tw.flown = append(tw.flown, wants)
		tw.mu.Unlock()
		select {
		case err := <-tw.land:
			got := slices.Clone(wants)
			for i := range got {
				got[i] *= 10
			}
			return got, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return tw
}

// call starts a caller and returns where its outcome arrives.
func (tw *tower) call(ctx context.Context, want int) <-chan any {
	out := make(chan any, 1)
	tw.callers.Go(func() {
		got, err := tw.do(ctx, want, func() (int, error) {
			got, err := tw.run(ctx, []int{want})
			if err != nil {
				return 0, err
			}
			return got[0], nil
		})
		if err != nil {
			out <- err
			return
		}
		out <- got
	})
	synctest.Wait()
	return out
}

func (tw *tower) end(err error) {
	tw.land <- err
	synctest.Wait()
}

func (tw *tower) seen() [][]int {
	tw.mu.Lock()
	defer tw.mu.Unlock()
	return slices.Clone(tw.flown)
}

func TestFlights(t *testing.T) {
	t.Parallel()
	t.Run("alone while nobody is in the way, then together", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tw := newTower(1)
			first := tw.call(t.Context(), 1)
			require.Equal(t, [][]int{{1}}, tw.seen())
			var rest []<-chan any
			for want := 2; want <= 5; want++ {
				rest = append(rest, tw.call(t.Context(), want))
			}
			require.Len(t, tw.seen(), 1)
			tw.end(nil)
			require.Equal(t, 10, <-first)
			require.Equal(t, [][]int{{1}, {2, 3, 4}}, tw.seen())
			tw.end(nil)
			tw.end(nil)
			for i, out := range rest {
				require.Equal(t, 10*(i+2), <-out)
			}
			require.Equal(t, [][]int{{1}, {2, 3, 4}, {5}}, tw.seen())
			last := tw.call(t.Context(), 6)
			tw.end(nil)
			require.Equal(t, 60, <-last)
			tw.callers.Wait()
		})
	})
	t.Run("an error is everyone's, and the next go on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tw, broken := newTower(1), errors.New("broken")
			tw.call(t.Context(), 1)
			two, three := tw.call(t.Context(), 2), tw.call(t.Context(), 3)
			tw.end(nil)
			tw.end(broken)
			require.Equal(t, broken, <-two)
			require.Equal(t, broken, <-three)
			four := tw.call(t.Context(), 4)
			tw.end(nil)
			require.Equal(t, 40, <-four)
			tw.callers.Wait()
		})
	})
	t.Run("who leaves is not waited for, and the last ends the flight", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tw := newTower(1)
			tw.call(t.Context(), 1)
			ctx2, leave2 := context.WithCancel(t.Context())
			ctx3, leave3 := context.WithCancel(t.Context())
			ctx4, leave4 := context.WithCancel(t.Context())
			two, three, four := tw.call(ctx2, 2), tw.call(ctx3, 3), tw.call(ctx4, 4)
			leave4()
			require.Equal(t, context.Canceled, <-four) // before the flight
			tw.end(nil)
			require.Equal(t, [][]int{{1}, {2, 3}}, tw.seen())
			leave2()
			require.Equal(t, context.Canceled, <-two)
			synctest.Wait()
			require.Empty(t, three)
			leave3()
			require.Equal(t, context.Canceled, <-three)
			five := tw.call(t.Context(), 5)
			tw.end(nil)
			require.Equal(t, 50, <-five)
			tw.callers.Wait()
		})
	})
	t.Run("a slow one does not hold up the others for long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tw := newTower(1)
			tw.patience = time.Second
			slow := tw.call(t.Context(), 1)
			for want := 2; want <= 15; want++ {
				tw.call(t.Context(), want)
			}
			require.Len(t, tw.seen(), 1)
			<-time.After(time.Second)
			synctest.Wait()
			require.Len(t, tw.seen(), 1+flightsMore, "and not one more")
			require.Empty(t, slow)
			for range 1 + flightsMore { // whichever they are
				tw.end(nil)
			}
			require.Equal(t, 10, <-slow)
			for range 2 { // 3 times 3 were in the air, so 5 are left
				tw.end(nil)
			}
			tw.callers.Wait()
			require.Len(t, slices.Concat(tw.seen()...), 15)
			last := tw.call(t.Context(), 16)
			require.Equal(t, []int{16}, tw.seen()[len(tw.seen())-1], "as many as before")
			tw.call(t.Context(), 17)
			require.NotContains(t, slices.Concat(tw.seen()...), 17)
			tw.end(nil)
			tw.end(nil)
			require.Equal(t, 160, <-last)
			tw.callers.Wait()
		})
	})
}
