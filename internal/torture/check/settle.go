package check

// Outcomes that a worker records without its handler having come to an end.
const (
	classAbandoned = "worker.Abandoned"
	reasonShutdown = "shutdown"
	reasonReleased = "released"
)

// settles: what the database took as the outcome of an attempt is what the
// handler of this attempt had come to, and no attempt outlives a success.
func (c *checker) settles() {
	for i := range c.final.Messages {
		m := &c.final.Messages[i]
		if m.Place != Succeeded {
			continue
		}
		a := c.x.attempt(m.Lease)
		switch {
		case a.ready == 0:
			c.stale(m.Lease, "success was accepted for token %d, whose handler had not come to one", m.Token)
		case c.after(a.ready, m.At):
			c.stale(m.Lease, "success was accepted for token %d, %d µs before its handler came to one", m.Token, a.ready-m.At)
		case a.worker != m.Worker:
			c.stale(m.Lease, "success of worker %d was accepted for token %d of worker %d", m.Worker, m.Token, a.worker)
		}
		if tokens := c.x.tokens[m.ID]; len(tokens) > 0 && tokens[len(tokens)-1] > m.Token {
			c.stale(m.Lease, "success was accepted for token %d, after that there was %d", m.Token, tokens[len(tokens)-1])
		}
	}
	for i := range c.final.Attempts {
		e := &c.final.Attempts[i]
		if e.byReaper() || e.Class == classAbandoned || e.Reason == reasonShutdown {
			continue
		}
		a := c.x.attempt(e.Lease)
		if e.Worker == remote && e.Reason == reasonReleased && a.starts == 0 {
			continue // the daemon gave it back, since whoever had asked for it was gone
		}
		end := max(a.fail, a.ready)
		switch {
		case end == 0:
			c.stale(e.Lease, "%s was accepted for token %d, whose handler had not ended", e.Outcome, e.Token)
		case c.after(end, e.At):
			c.stale(e.Lease, "%s was accepted for token %d, %d µs before its handler ended", e.Outcome, e.Token, end-e.At)
		case a.worker != e.Worker:
			c.stale(e.Lease, "%s of worker %d was accepted for token %d of worker %d", e.Outcome, e.Worker, e.Token, a.worker)
		}
	}
}

// rejections: an outcome is refused only when the attempt has an end already,
// or when the worker had found itself dead. Of a message that is completed in a
// transaction, that one may be in the way.
func (c *checker) rejections() {
	for id, rows := range c.x.rows {
		m := rows[0]
		if m.CompletedInTx {
			continue
		}
		for _, t := range c.x.tokens[id] {
			a := c.x.attempts[Lease{id, t}]
			w := c.x.workers[a.worker]
			if a.rejected == 0 || w != nil && w.Dead != 0 && !c.after(w.Beat, a.rejected) {
				continue
			}
			var end int64
			switch {
			case a.ended != nil:
				end = a.ended.At
			case m.Token == t && (m.Place == Succeeded || m.Place == Dead):
				end = m.At
			}
			if end == 0 || c.after(end, a.rejected) {
				c.broken(FalseRejection, id, "the outcome of token %d was refused, which nobody had ended", t)
			}
		}
	}
}

func (c *checker) stale(l Lease, format string, args ...any) {
	c.broken(StaleSettle, l.ID, format, args...)
}

// effects: those of a CompleteTx happened once, together with the success.
func (c *checker) effects() {
	of := map[int64]int{}
	done := map[Lease]bool{}
	for i := range c.final.Messages {
		if m := &c.final.Messages[i]; m.Place == Succeeded {
			done[m.Lease] = true
		}
	}
	for _, l := range c.final.Effects {
		if of[l.ID]++; of[l.ID] > 1 {
			c.broken(DuplicateEffect, l.ID, "effect number %d", of[l.ID])
		}
		if !done[l] {
			c.broken(TornEffect, l.ID, "there is an effect of token %d and no success", l.Token)
		}
	}
	for i := range c.final.Messages {
		if m := &c.final.Messages[i]; m.Place == Succeeded && m.CompletedInTx && c.x.attempt(m.Lease).committed == 0 {
			c.broken(TornEffect, m.ID, "there is a success of token %d and no effect", m.Token)
		}
	}
}
