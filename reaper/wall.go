package reaper

import (
	"time"

	"github.com/robfig/cron/v3"
)

// everyHour are the bits of all hours in a cron.SpecSchedule.
const everyHour = 1<<24 - 1

// wallSchedule is due when the clock on a wall shows certain times. It knows
// what the wall shows, as if there were no time zones, from the library, and
// turns that into moments itself.
type wallSchedule struct {
	spec *cron.SpecSchedule // in UTC, which stands for the wall
	loc  *time.Location
	// steady makes it go by the time that passes where clocks are set back
	// or forth; otherwise each time on the wall counts once.
	steady bool
}

func (s wallSchedule) next(t time.Time) time.Time {
	t = t.In(s.loc)
	if s.steady {
		return s.nextSteady(t)
	}
	for wall := onWall(t); ; {
		wall = s.spec.Next(wall)
		if wall.IsZero() {
			return time.Time{}
		}
		// A time that has been there already is not repeated.
		if moment := s.moment(wall); moment.After(t) {
			return moment
		}
	}
}

// nextSteady goes from one setting of the clocks to the next.
func (s wallSchedule) nextSteady(t time.Time) time.Time {
	for {
		wall := onWall(t)
		due := s.spec.Next(wall)
		if due.IsZero() {
			return time.Time{}
		}
		moment := t.Add(due.Sub(wall))
		_, end := t.ZoneBounds()
		if end.IsZero() || moment.Before(end) {
			return moment
		}
		// Next returns a time after the one that it is given.
		if shown := onWall(end); s.spec.Next(shown.Add(-time.Second)).Equal(shown) {
			return end
		}
		t = end
	}
}

// moment is when the wall first shows the time; for one that it skips, when
// it does so.
func (s wallSchedule) moment(wall time.Time) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, s.loc)
	start, end := t.ZoneBounds()
	switch shown := onWall(t); {
	case shown.After(wall):
		return start
	case shown.Before(wall):
		return end
	case start.IsZero():
		return t
	}
	_, offset := start.Add(-1).Zone()
	earlier := wall.Add(-time.Duration(offset) * time.Second)
	if earlier.Before(start) {
		return earlier.In(s.loc)
	}
	return t
}

// onWall is what a clock on the wall shows at t.
func onWall(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}
