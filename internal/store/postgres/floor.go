package postgres

// floor holds the positions in an index below which a cursor need not look.
// Ids and times commit out of order, so there are two of them:
//
//   - soft: everything up to here that was visible has been taken. Used only
//     to go on from one full batch to the next.
//   - hard: nothing up to here can become visible any more. A candidate
//     becomes the hard floor when every transaction that ran while it was the
//     soft floor has ended (a later snapshot's xmin has reached the xmax seen
//     then) and a scan from the old hard floor, begun after that, has passed
//     it. Only transactions that write hold xmin back, readers do not.
//
// What neither covers (a row that was locked by a claim which failed, an id
// drawn by a transaction that had no transaction id yet) is found by the scan
// from zero that the cursor makes now and then.
type floor[T any] struct {
	soft, hard T
	// pos is where the next claim begins; nil until the first round.
	pos *T
	// behind reports that pos is below soft: this round began lower down.
	behind bool

	candidate T
	xmax      uint64 // 0: there is no candidate
	ripe      bool
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
	f.pos, f.behind = &at, true
	return at
}

// observe takes the snapshot of the probe with which a round begins; hard
// says that the round begins at the hard floor.
func (f *floor[T]) observe(xmin, xmax uint64, hard bool) {
	switch {
	case f.xmax == 0:
		f.candidate, f.xmax, f.ripe = f.soft, xmax, false
	case hard:
		f.ripe = xmin >= f.xmax
	}
}

// advanced records a full batch that ended at last.
func (f *floor[T]) advanced(last T, compare func(a, b T) int) {
	f.pos = &last
	if f.ripe && compare(last, f.candidate) >= 0 {
		f.promote()
	}
	if compare(last, f.soft) >= 0 {
		f.soft, f.behind = last, false
	}
}

// exhausted records a scan that reached the end. Nothing visible is left up
// to where it was, nor up to end, which was read before the scan began.
func (f *floor[T]) exhausted(end T, compare func(a, b T) int) {
	if f.ripe {
		f.promote()
	}
	if f.pos != nil && compare(*f.pos, end) > 0 {
		end = *f.pos
	}
	f.soft, f.behind = end, false
	f.pos = &end
}

func (f *floor[T]) promote() {
	f.hard, f.xmax, f.ripe = f.candidate, 0, false
}
