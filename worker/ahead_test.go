package worker_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

// valve lets handlers pass while it is open.
type valve struct {
	shut           atomic.Pointer[chan struct{}]
	now, most, ran atomic.Int64
}

func (v *valve) handle(context.Context, *worker.Message[job]) error {
	n := v.now.Add(1)
	defer v.now.Add(-1)
	v.most.Store(max(v.most.Load(), n)) // now and then it misses one
	if shut := v.shut.Load(); shut != nil {
		<-*shut
	}
	v.ran.Add(1)
	return nil
}

func (v *valve) close() {
	shut := make(chan struct{})
	v.shut.Store(&shut)
}

func (v *valve) open() {
	if shut := v.shut.Swap(nil); shut != nil {
		close(*shut)
	}
}

const (
	aheadSlots = 4
	aheadJobs  = 6_000
)

// holdingAhead starts a worker whose handlers are quick until all of a sudden
// none returns, while it holds more messages than run.
func holdingAhead(t *testing.T, r *rig) (*valve, *running) {
	t.Helper()
	v := &valve{}
	t.Cleanup(v.open)
	w, _ := r.worker(worker.Config{Concurrency: aheadSlots, Ahead: 100})
	worker.Handle(w, v.handle, nil)
	r.jobs(aheadJobs, nil)
	run := r.start(w)
	for {
		before := v.ran.Load()
		until(t, "messages are handled", func() bool { return v.ran.Load() > before+200 })
		v.close()
		until(t, "every slot is taken", func() bool { return v.now.Load() == aheadSlots })
		if r.counted(message.StatusProcessing) > aheadSlots {
			return v, run
		}
		require.Less(t, int(v.ran.Load()), aheadJobs-400, "nothing was claimed ahead")
		v.open()
	}
}

// What a worker has claimed ahead is given back when its handlers are not as
// quick as they were, so that others may have it.
func TestWhatWaitsForASlotIsGivenBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		v, run := holdingAhead(t, r)
		until(t, "only what runs is held", func() bool { return r.counted(message.StatusProcessing) == aheadSlots })
		v.open()
		until(t, "all is done", func() bool { return r.counted(message.StatusSucceeded) == aheadJobs })
		require.NoError(t, run.stop())
		require.EqualValues(t, aheadJobs, v.ran.Load(), "each message ran once")
		require.EqualValues(t, aheadSlots, v.most.Load(), "no more than that at once")
		require.Zero(t, r.count("SELECT count(*) FROM {{s}}all_messages WHERE retry_count > 0 OR status = 'dead'"))
	})
}

// At its end a worker gives back at once what it has not begun.
func TestWhatWaitsForASlotGoesBackAtAShutdown(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		v, run := holdingAhead(t, r)
		ran := int(v.ran.Load())
		run.cancel()
		until(t, "only what runs is held", func() bool { return r.counted(message.StatusProcessing) == aheadSlots })
		v.open()
		require.NoError(t, run.wait())
		require.Equal(t, ran+aheadSlots, int(v.ran.Load()))
		require.Equal(t, ran+aheadSlots, r.counted(message.StatusSucceeded))
		require.Equal(t, aheadJobs-ran-aheadSlots, r.count("SELECT count(*) FROM {{s}}all_messages WHERE status = 'pending' AND retry_count = 0"))
	})
}
