// Package store is the boundary between Styx and a database: the interfaces
// that the packages client, worker and reaper need, and the protocol that
// every implementation keeps. Package storetest proves an implementation.
//
// # Protocol
//
// A message is in exactly one place: the hot table (pending or processing),
// the archive (succeeded) or the dead letters (dead). Every move is one
// statement or one transaction.
//
// Claim. One statement takes pending messages that are due, of the kinds
// asked for, skips what others have locked, sets processing, adds one to the
// lease token, and names the worker and a deadline. The same statement
// writes a claims row: the worker, its own number of this claim, the ids. A
// token is never used again.
//
// Settle. Succeed, retry, bury, release and extend name the message, its
// token and the worker's incarnation, and change nothing unless all three
// and the status fit. A settle that comes twice, its first reply lost, gets
// the first one's answer; any other mismatch is message.ErrLeaseLost.
//
// Beat. A worker shows its life by one row, however many messages it holds.
// Death is one-way: a worker that was found dead, or that comes too late,
// is refused, gives up what it holds and registers anew.
//
// Reap. A processing message is lost when its own deadline has passed or its
// worker is not alive. The statement that takes it back checks status,
// token, worker and deadline again, and skips locked rows, so that any
// number of reapers may run at once and none can move a message that is
// alive. The loss is charged. The claims rows only say where to look; a slow
// sweep finds what has lost its claims row.
//
// Orphans. A claim may commit while its reply is lost. Each claim has a
// number of its worker's own; at every beat the worker names the numbers
// that it knows, and everything else under its name is released, uncharged.
//
// Remote. A consumer without an incarnation, as over HTTP, claims under the
// worker RemoteWorker, for which nothing beats: it counts as alive, and only
// the deadline ends its leases. It settles by id, queue and token, or without
// a token whatever lease is in force.
//
// Pause. A claim goes by pauses that were read up to PauseEvery before; they
// are never a condition of its statement.
//
// Time is the database's clock. Durations are bound, times are not, except
// those that a caller chose.
package store
