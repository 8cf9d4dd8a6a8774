//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/styxmq/styx/internal/torture/history"
)

const (
	// claimMost is how many messages a consumer claims at once, claimWait
	// how long it waits for a first one.
	claimMost, claimWait = 4, 2 * time.Second
	// remoteWorker is who holds what was claimed over HTTP.
	remoteWorker = -1
)

// consume is a process that claims and settles over HTTP.
func (p *player) consume(ctx context.Context) error {
	a := newAPI(p.Address)
	var all sync.WaitGroup
	for i := range p.Concurrency {
		all.Go(func() { p.claimOn(ctx, a, rand.New(rand.NewPCG(p.Seed, uint64(i+1)))) })
	}
	all.Wait()
	return nil
}

// claimOn claims and handles until ctx ends.
func (p *player) claimOn(ctx context.Context, a *api, rng *rand.Rand) {
	wait := time.Duration(0)
	for pause(ctx, wait) {
		sent := time.Now()
		var claimed struct {
			Messages []remoteMessage `json:"messages"`
		}
		// Told to end, it takes what it is given all the same.
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimWait+callTimeout)
		err := p.blame(a.post(call, "/queues/default/claim", "", map[string]any{
			"max": 1 + rng.IntN(claimMost), "kinds": []string{kindShared}, "wait": claimWait.Seconds(), "lease": p.Lease.Seconds(),
		}, &claimed))
		cancel()
		if wait = 0; err != nil {
			wait = 100 * time.Millisecond // what was claimed, if anything, comes back by itself
			continue
		}
		for i := range claimed.Messages {
			m := &claimed.Messages[i]
			p.h.Add(history.Event{
				Kind: history.Start, ID: m.ID, Token: m.LeaseToken, Worker: remoteWorker, Until: sent.Add(p.Lease).UnixMicro(),
			})
		}
		var each sync.WaitGroup
		for i := range claimed.Messages {
			each.Go(func() { p.consumeOne(context.WithoutCancel(ctx), a, &claimed.Messages[i]) })
		}
		each.Wait()
	}
}

// consumeOne does what the message says and settles it.
func (p *player) consumeOne(ctx context.Context, a *api, m *remoteMessage) {
	j := decode(m.Payload)
	first := m.LeaseToken == 1
	dies := func(where deed) {
		if first && j.Do == where {
			die()
		}
	}
	dies(dieClaimed)
	long := time.Duration(j.MS) * time.Millisecond
	if long > p.Lease/4 {
		pause(ctx, p.Lease/4)
		long -= p.Lease / 4
		// One that has lost its lease goes on, as careless ones do.
		_ = p.tell(ctx, a, m, "extend", map[string]any{"lease": p.Lease.Seconds() + long.Seconds()})
	}
	pause(ctx, long)
	dies(dieHandler)
	verb, body, end := "succeed", map[string]any{}, history.Ready
	switch j.Do {
	case doFlaky:
		if m.Attempt == 1 && m.ReplayCount == 0 {
			verb, body = "fail", map[string]any{"error": "not yet", "retry_in": 0.02}
		}
	case doSnooze:
		if m.LeaseToken <= 3 {
			verb, body = "release", map[string]any{"delay": 0.05}
		}
	case doPermanent:
		verb, body = "fail", map[string]any{"error": "poison", "failure_kind": "permanent"}
	case doHuge:
		verb, body = "fail", map[string]any{"error": strings.Repeat("no end ", 1<<20/14), "retry_in": 0.02}
	case doError, doPanic, doGoexit, doRuntime, doNUL:
		verb, body = "fail", map[string]any{"error": "poison", "error_class": string(j.Do), "retry_in": 0.02}
	default:
	}
	if verb != "succeed" {
		end = history.Fail
	} else {
		p.h.Add(history.Event{Kind: history.Effect, ID: m.ID, Token: m.LeaseToken})
		dies(dieEffect)
	}
	p.h.Add(history.Event{Kind: end, ID: m.ID, Token: m.LeaseToken})
	dies(dieReturned)
	p.settle(ctx, a, m, verb, body)
	dies(dieSettled)
}

// settle tells the outcome until it knows what became of it, or the lease must
// be over.
func (p *player) settle(ctx context.Context, a *api, m *remoteMessage, verb string, body map[string]any) {
	until := time.Now().Add(2*p.Lease + callTimeout)
	for wait := 20 * time.Millisecond; time.Now().Before(until); wait = min(2*wait, time.Second) {
		err := p.tell(ctx, a, m, verb, body)
		if r, ok := errors.AsType[*refusal](err); ok && r.Status == http.StatusConflict {
			if r.Type == problemLeaseLost || r.Type == problemState {
				p.h.Add(history.Event{Kind: history.Rejected, ID: m.ID, Token: m.LeaseToken})
			}
			return
		}
		if err == nil {
			return
		}
		pause(ctx, wait)
	}
}

// tell makes one call about a message that is held.
func (p *player) tell(ctx context.Context, a *api, m *remoteMessage, verb string, body map[string]any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body["lease_token"] = m.LeaseToken
	return p.blame(a.post(ctx, fmt.Sprintf("%s/%d/%s", pathMessages, m.ID, verb), "", body, &struct{}{}))
}
