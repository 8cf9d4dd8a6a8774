package main

import (
	"context"
	"errors"
)

const analyticsReaders = 4

// analytics works while others read everything.
func analytics(ctx context.Context, r *run) error {
	db, ok := r.stage.(*database)
	if !ok {
		return errors.New("there is nothing to read from")
	}
	reading := db.readAll(ctx, r.entry.scan, analyticsReaders, r.h.scan)
	during := 2 * r.h.scan
	res, err := r.flow(ctx, during)
	scans, readErr := reading.stop()
	if err := errors.Join(err, readErr); err != nil {
		return err
	}
	quarter := res.EnqueueTook.Nanoseconds() / 4
	first := rateWithin(res.Marks, steadyBatch, res.Began, res.Began+quarter)
	last := rateWithin(res.Marks, steadyBatch, res.Began+3*quarter, res.Began+4*quarter)
	r.rate(steadyRate, res.WorkedAtEnd, res.EnqueueTook)
	r.add("worked/s in the first quarter", first, perSecond)
	r.add("worked/s in the last quarter", last, perSecond)
	r.add("scans", float64(scans), plain)
	return r.check(ctx, res.Enqueued, res.Enqueued)
}
