package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const snapshotSlices = 6

const (
	snapshotFirst = "drain/s of the first sixth"
	snapshotLast  = "drain/s of the last sixth"
	snapshotShare = "last / first"
)

// snapshot drains while an old snapshot is held.
func snapshot(ctx context.Context, r *run) (err error) {
	db, ok := r.stage.(*database)
	if !ok {
		return errors.New("there is no snapshot to hold")
	}
	each := r.messages()
	n := each * snapshotSlices
	if _, err := r.fill(ctx, enqueueTask{Count: n}); err != nil {
		return err
	}
	if err := r.stage.rest(ctx); err != nil {
		return err
	}
	held, err := db.hold(ctx)
	if err != nil {
		return err
	}
	res, err := runTask(ctx, r.working(workTask{Size: n, Maintain: true, Expect: n, Every: each}))
	if err := errors.Join(err, held.release(ctx)); err != nil {
		return err
	}
	if len(res.Marks) != snapshotSlices {
		return fmt.Errorf("%d marks instead of %d", len(res.Marks), snapshotSlices)
	}
	first := perSecondOf(each, time.Duration(res.Marks[0]-res.Began))
	last := perSecondOf(each, time.Duration(res.Marks[snapshotSlices-1]-res.Marks[snapshotSlices-2]))
	r.add(snapshotFirst, first, perSecond)
	r.add(snapshotLast, last, perSecond)
	r.add(snapshotShare, 100*last/first, percent)
	r.add("messages", float64(n), plain)
	return r.check(ctx, n, n)
}
