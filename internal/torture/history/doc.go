// Package history keeps what the processes of a torture run saw, outside the
// database: each writes its events to an append-only file of its own, one JSON
// object a line, with one write call an event. A killed process loses nothing
// that it had noted, and a database that loses something cannot lose the proof.
package history
