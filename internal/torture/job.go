//go:build unix

package torture

import (
	"encoding/json"
	"time"
)

// job is the payload of every message.
type job struct {
	// Op names the enqueue, for life.
	Op string `json:"op"`
	Do deed   `json:"do"`
	MS int    `json:"ms"`
}

func (job) Kind() string { return "torture" }

// shared is a job for workers and for consumers over HTTP.
type shared struct{ job }

func (shared) Kind() string { return kindShared }

const kindShared = "shared"

// deed is what a handler does with the message.
type deed string

// What goes well in the end.
const (
	doWork   deed = "work"   // has an effect outside the database
	doTx     deed = "tx"     // has an effect in the transaction that completes it
	doFlaky  deed = "flaky"  // fails at first
	doSnooze deed = "snooze" // comes back a few times
)

// Poison. The first of them do not end their process.
const (
	doError     deed = "error"
	doPermanent deed = "permanent"
	doPanic     deed = "panic"
	doGoexit    deed = "goexit"
	doRuntime   deed = "runtime" // an error of the runtime
	doNUL       deed = "nul"     // the text of the error is no text
	doHuge      deed = "huge"    // the text of the error is 1 MB
	doIgnore    deed = "ignore"  // runs on after its context has ended
	doExit      deed = "exit"    // ends the process, each time
)

// Points at which the first attempt kills its process.
const (
	dieClaimed   deed = "die-claimed"
	dieHandler   deed = "die-handler"
	dieEffect    deed = "die-effect"
	dieTx        deed = "die-tx"
	dieCommitted deed = "die-committed"
	dieReturned  deed = "die-returned"
	dieSettled   deed = "die-settled"
)

var (
	poisons = []deed{doError, doPermanent, doPanic, doGoexit, doRuntime, doNUL, doHuge, doIgnore, doExit}
	points  = []deed{dieClaimed, dieHandler, dieEffect, dieTx, dieCommitted, dieReturned, dieSettled}
)

const (
	// shortTimeout is that of what ignores its context; everything else has
	// longTimeout.
	shortTimeout, longTimeout = time.Second, 20 * time.Second
	// budget is the number of attempts of a message. The waits of the
	// reaper double with each loss, and the drain waits for them.
	budget = 4
)

// inTx reports whether the deed is completed in a transaction.
func (d deed) inTx() bool { return d == doTx || d == dieTx || d == dieCommitted }

// text is the job as a payload.
func (j job) text() string {
	text, err := json.Marshal(j)
	if err != nil {
		panic(err) // there is nothing in it that could fail
	}
	return string(text)
}

func decode(payload string) (j job) {
	_ = json.Unmarshal([]byte(payload), &j) // a foreign payload is unexpected, by its empty Op
	return j
}
