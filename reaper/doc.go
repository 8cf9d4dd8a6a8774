// Package reaper keeps queues healthy: it takes back what lost workers held,
// ends messages that have expired, and deletes what has been kept long enough.
//
//	r, err := reaper.New(db, reaper.Config{})
//	if err != nil {
//		return err
//	}
//	err = r.Run(ctx) // until ctx ends
//
// Something must run it, or a message whose worker has died stays where it
// is: this package inside one of your programs, or the command reaper. Any
// number of them may run at once, on any number of hosts; none leads, and they
// need not know of each other.
//
// # What it does
//
// Rescue, every second: a worker that has not shown its life within its lease
// is dead from then on. A message whose worker is dead, or whose own deadline
// has passed, goes back to its queue with the attempt charged, or to the dead
// letters when that was the last one. Each move checks again, in the statement
// that makes it, that nobody holds the message. Pending messages past their
// expiry go to the dead letters.
//
// Sweep, every minute: the same for messages that no record of a claim leads
// to, as after a restored backup. One run goes a part of the way through all
// messages.
//
// Maintain, every minute: room is made for what the coming days will store,
// and what is older than its retention is deleted: succeeded messages, resolved
// dead letters, idempotency keys, attempts. Dead letters that wait for somebody
// are kept for ever unless [Config.DeadRetention] says otherwise. Pending and
// processing messages are never deleted.
//
// # Schedules
//
// A schedule is a cron spec of five fields, one of the descriptors @hourly,
// @daily, @weekly, @monthly and @yearly, or "@every 90s". CRON_TZ=Zone before
// it names its time zone, which otherwise is [Config.Location], UTC by
// default. Where clocks change, a spec that names its hours runs once for each
// of its times of each day: one that does not exist that day when the clocks
// jump, one that exists twice the first time only. A spec with * for the hour
// runs by the time that passes.
//
// Each job runs once at the start, so that one which is due once a day happens
// even if the program never lives that long. It never overlaps itself, and
// whatever it missed, because the machine slept or a clock was set, is made up
// for by one run within seconds.
//
// Ages, leases and deadlines are measured by the database's clock; only the
// schedules go by this machine's.
package reaper
