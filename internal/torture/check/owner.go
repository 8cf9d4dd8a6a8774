package check

// owners: each token is used once, and each attempt but the last was ended by
// somebody before the next one began.
func (c *checker) owners() {
	for id, tokens := range c.x.tokens {
		last := tokens[len(tokens)-1]
		for _, m := range c.x.rows[id] {
			last = max(last, m.Token)
		}
		for _, t := range tokens {
			l := Lease{id, t}
			a := c.x.attempts[l]
			if a.starts > 1 {
				c.broken(TokenReused, id, "%d attempts had the token %d", a.starts, t)
			}
			if t == last {
				continue
			}
			if a.ended == nil {
				c.broken(TwoOwners, id, "nobody ended the attempt of token %d, and there was one of token %d", t, last)
				continue
			}
			if next := c.x.began(l); next != 0 && c.after(a.ended.At, next) {
				c.broken(TwoOwners, id, "the attempt after token %d began %d µs before that one's end", t, a.ended.At-next)
			}
		}
	}
}

// losses: the reaper takes nothing from a worker that is alive.
func (c *checker) losses() {
	for i := range c.final.Workers {
		w := &c.final.Workers[i]
		if w.Dead == 0 || w.Dead-w.Beat >= w.Lease {
			continue
		}
		if left := c.x.draining[w.Process]; left == 0 || c.after(left, w.Dead) {
			c.broken(EarlyLoss, 0, "worker %d of %s was buried %d µs after its beat, its lease is %d µs", w.ID, w.Process, w.Dead-w.Beat, w.Lease)
		}
	}
	for i := range c.final.Attempts {
		e := &c.final.Attempts[i]
		a := c.x.attempt(e.Lease)
		switch e.Reason {
		case reasonLost:
			// Death is one-way: since the last beat that was accepted the
			// lease has run out, or somebody has said so.
			w := c.x.workers[e.Worker]
			if e.Worker == remote {
				c.broken(EarlyLoss, e.ID, "token %d was taken from a consumer that no worker holds", e.Token)
			}
			if w != nil && (w.Dead == 0 || c.after(w.Dead, e.At)) && (c.Tolerance < 0 || c.after(w.Beat+w.Lease, e.At)) {
				c.broken(EarlyLoss, e.ID, "token %d was taken from worker %d, which was alive", e.Token, e.Worker)
			}
		case reasonTimedOut:
			switch {
			case a.starts == 0 || c.Tolerance < 0 || c.stepped(a.start, e.At):
			case a.until != 0 && c.after(a.until, e.At):
				c.broken(EarlyLoss, e.ID, "token %d timed out %d µs before the end of its lease", e.Token, a.until-e.At)
			case a.until == 0 && e.At-a.start < c.MinTimeout:
				c.broken(EarlyLoss, e.ID, "token %d timed out %d µs after its start", e.Token, e.At-a.start)
			}
		}
	}
}
