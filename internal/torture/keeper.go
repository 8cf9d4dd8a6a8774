//go:build unix

package torture

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/internal/torture/history"
	"github.com/styxmq/styx/reaper"
)

// reap is a reaper process.
func (p *player) reap(ctx context.Context) error {
	r, err := reaper.New(p.db, reaper.Config{Logger: p.log})
	if err != nil {
		return err
	}
	return unreachable(r.Run(ctx))
}

// Where an operator dies when it is told to.
const (
	dieListed   = "listed"   // between dead letter and replay
	dieReplayed = "replayed" // after the replay, before it was noted
)

// operate is an operator process: it replays each dead message once.
func (p *player) operate(ctx context.Context) error {
	c, err := client.New(p.db, client.Config{})
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(p.Seed, 1))
	end := ""
	for pause(ctx, time.Duration(100+rng.IntN(300))*time.Millisecond) {
		select {
		case cmd := <-p.commands:
			end = cmd.arg
		default:
		}
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		end = p.replaySome(call, c, end)
		cancel()
	}
	return nil
}

func (p *player) replaySome(ctx context.Context, c *client.Client, end string) string {
	page, err := c.DeadLetters().List(ctx, client.DeadLetterOptions{Limit: 50})
	if err != nil {
		return end // the next time
	}
	for i := range page.DeadLetters {
		l := &page.DeadLetters[i]
		if l.ReplayCount > 0 {
			continue
		}
		if end == dieListed {
			die()
		}
		err := c.DeadLetters().Replay(ctx, l.ID, &client.ReplayOptions{Actor: p.Name})
		if end == dieReplayed {
			die()
		}
		if err == nil {
			p.h.Add(history.Event{Kind: history.Replayed, ID: l.ID})
		}
	}
	return end
}
