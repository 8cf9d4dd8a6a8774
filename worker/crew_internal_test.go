package worker

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// crewOf runs n tasks and calls f with the number of each.
func crewOf(n int, f func(i int64)) (c *crew, tasks []*task, done *sync.WaitGroup) {
	done = new(sync.WaitGroup)
	done.Add(n)
	c = &crew{work: func(t *task) *task {
		defer done.Done()
		f(t.number)
		return nil
	}}
	for i := range n {
		tasks = append(tasks, &task{number: int64(i)})
	}
	return c, tasks, done
}

func TestCrewBeginsEveryTaskThoughAllBlock(t *testing.T) {
	t.Parallel()
	const n = 50
	var begun sync.WaitGroup
	begun.Add(n)
	release := make(chan struct{})
	c, tasks, done := crewOf(n, func(int64) {
		begun.Done()
		<-release
	})
	defer c.close()
	c.add(tasks[:20])
	c.add(tasks[20:])
	begun.Wait() // hangs when one waits for another
	close(release)
	done.Wait()
}

func TestCrewGoesOnAfterGoexit(t *testing.T) {
	t.Parallel()
	const n = 100
	c, tasks, done := crewOf(n, func(i int64) {
		if i%3 == 0 {
			runtime.Goexit()
		}
	})
	defer c.close()
	for part := range 10 {
		c.add(tasks[part*10 : (part+1)*10])
	}
	done.Wait()
}

func TestCrewRunsEveryTaskOnce(t *testing.T) {
	t.Parallel()
	const n = 300
	var (
		mu  sync.Mutex
		got = make(map[int64]int, n)
	)
	c, tasks, done := crewOf(n, func(i int64) {
		mu.Lock()
		defer mu.Unlock()
		got[i]++
	})
	for i := range tasks {
		c.add(tasks[i : i+1])
	}
	done.Wait()
	c.close()
	require.Len(t, got, n)
	for i, times := range got {
		require.Equal(t, 1, times, i)
	}
}
