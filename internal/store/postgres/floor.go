package postgres

// floor holds the positions in an index below which a cursor need not look.
// Ids and times commit out of order, so there are two of them:
//
//   - soft: everything up to here that was visible has been taken. Used only
//     to go on from one full batch to the next.
//   - hard: nothing up to here can become visible any more.
//
// The hard floor rises by a candidate: a probe reads the last id that was
// drawn (or the time) together with a new transaction id. When a later
// snapshot's xmin has reached that one, every transaction that could still
// bring in something up to the candidate has ended. A scan from the hard floor
// that begins then takes it all, so the hard floor follows this scan, as far
// as the candidate. Only transactions that write hold xmin back, readers do
// not.
//
// What this does not cover (a row that was locked by a claim which failed, an
// id drawn by a transaction that had no transaction id yet) is found by the
// scan from zero that the cursor makes now and then.
type floor[T any] struct {
	soft, hard T
	// pos is where the next claim begins; nil until the first round.
	pos *T
	// behind reports that pos is below soft: this round began lower down;
	// whole that it began at zero.
	behind, whole bool

	candidate T
	xid       uint64 // 0: there is no candidate
	ripe      bool   // this scan takes all that is up to the candidate
}

// begin sets the position of a round and returns it.
func (f *floor[T]) begin(hard, full bool) T {
	var at T
	switch {
	case full:
	case hard:
		at = f.hard
	case f.pos != nil:
		return *f.pos
	}
	f.pos, f.behind, f.whole = &at, true, full
	return at
}

// observe takes the probe with which a round begins: its snapshot's xmin, the
// transaction id that it drew, and the end of what had begun by then; hard
// says that the round begins at the hard floor.
func (f *floor[T]) observe(xmin, xid uint64, end T, hard bool) {
	switch {
	case f.xid == 0:
		f.candidate, f.xid, f.ripe = end, xid, false
	case hard && !f.ripe:
		f.ripe = xmin >= f.xid
	}
}

// solid is up to where a claim that begins now leaves nothing behind that could
// become visible; nothing unless it looks back.
func (f *floor[T]) solid() (upTo T) {
	if f.behind && f.ripe {
		upTo = f.candidate
	}
	return upTo
}

// advanced records a full batch that ended at last.
func (f *floor[T]) advanced(last T, compare func(a, b T) int) {
	f.pos = &last
	f.rise(last, compare)
	if compare(last, f.soft) >= 0 {
		f.soft, f.behind, f.whole = last, false, false
	}
}

// exhausted records a scan that reached the end. Nothing visible is left up
// to where it was, nor up to end, which was read before the scan began.
func (f *floor[T]) exhausted(end T, compare func(a, b T) int) {
	if f.ripe {
		f.rise(f.candidate, compare)
	}
	if f.pos != nil && compare(*f.pos, end) > 0 {
		end = *f.pos
	}
	f.soft, f.behind, f.whole = end, false, false
	f.pos = &end
}

// rise lifts the hard floor to where a ripe scan has come.
func (f *floor[T]) rise(to T, compare func(a, b T) int) {
	if !f.ripe {
		return
	}
	if compare(to, f.candidate) >= 0 {
		to, f.xid, f.ripe = f.candidate, 0, false
	}
	if compare(to, f.hard) > 0 {
		f.hard = to
	}
}
