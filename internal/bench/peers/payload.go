package main

import (
	"encoding/json"
	"math/rand/v2"
	"sync"
	"time"
)

// payload is what every system carries. Each is different: its number is, and
// its padding begins elsewhere in a random text.
type payload struct {
	Num int    `json:"num"`
	At  int64  `json:"at"` // nanoseconds since 1970, when it was made
	Pad string `json:"pad"`
}

// Kind names the payload to Styx and River.
func (payload) Kind() string { return "peer" }

// noiseBytes is the size of the text that paddings are cut from.
const noiseBytes = 1 << 20

// noise is letters and digits that no compression makes much smaller, the
// same in every process.
var noise = sync.OnceValue(func() string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
	text := make([]byte, noiseBytes)
	for i := range text {
		text[i] = letters[r.IntN(len(letters))]
	}
	return string(text)
})

// newPayload makes a payload whose JSON text has about that many bytes.
func newPayload(num, bytes int) payload {
	p := payload{Num: num, At: time.Now().UnixNano()}
	bare, err := json.Marshal(p)
	if err != nil {
		panic(err) // of three plain fields
	}
	n := max(1, bytes-len(bare))
	from := num * 61 % (noiseBytes - n)
	p.Pad = noise()[from : from+n]
	return p
}

// fails reports whether the message with a number is one of the hundredth that
// fail at their first attempt.
func fails(num int) bool { return num%100 == 7 }
