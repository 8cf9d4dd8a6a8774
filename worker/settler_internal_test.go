package worker

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

// Fetchers claim in turn, and not for more than may be asked for at once; who
// leaves the line does not hold up those behind.
func TestFetchersAreAdmittedInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSettler(&run{})
		var order []int
		enter := func(ctx context.Context, number, n int) {
			go func() {
				if s.admit(ctx, n) {
					order = append(order, number)
				} else {
					order = append(order, -number)
				}
			}()
			synctest.Wait()
		}
		ctx, leave := context.WithCancel(t.Context())
		enter(t.Context(), 1, askAhead-1)
		enter(t.Context(), 2, 10)
		require.Equal(t, []int{1, 2}, order, "less than all is asked for")
		enter(ctx, 3, 10)
		enter(t.Context(), 4, 10)
		require.Len(t, order, 2)
		leave()
		synctest.Wait()
		require.Equal(t, []int{1, 2, -3}, order)
		s.admitted(10)
		synctest.Wait()
		require.Equal(t, []int{1, 2, -3, 4}, order)
		enter(t.Context(), 5, 10)
		require.Len(t, order, 4)
		s.admitted(askAhead - 1)
		synctest.Wait()
		require.Equal(t, 5, order[4])
		s.admitted(10)
		s.admitted(10)
		require.Zero(t, s.asked)

		for range settleAhead {
			s.put(nil, store.Settlement{})
		}
		enter(t.Context(), 6, 1)
		require.Len(t, order, 5, "the database is too far behind")
		s.gather()
		synctest.Wait()
		require.Equal(t, 6, order[5])
	})
}
