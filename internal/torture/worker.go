//go:build unix

package torture

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/torture/history"
	"github.com/styxmq/styx/worker"
)

var errPoison = errors.New("poison")

// work is a worker process.
func (p *player) work(ctx context.Context) error {
	c, err := client.New(p.db, client.Config{})
	if err != nil {
		return err
	}
	w, err := worker.New(p.db, worker.Config{
		Name: p.Name, Lease: p.Lease, Concurrency: p.Concurrency, Timeout: longTimeout, Grace: 20 * time.Second,
		RetryPolicy: worker.Exponential{Base: 20 * time.Millisecond, Cap: time.Second}, Logger: p.log,
		Middleware: []worker.Middleware{p.witness(c)},
	})
	if err != nil {
		return err
	}
	worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error { return p.handle(ctx, m) }, nil)
	worker.Handle(w, func(ctx context.Context, m *worker.Message[shared]) error {
		return p.handle(ctx, &worker.Message[job]{Message: m.Message, Payload: m.Payload.job})
	}, nil)
	err = w.Run(ctx)
	if left, ok := errors.AsType[*worker.AbandonedError](err); ok && len(left.Messages) > 0 {
		return nil // they ignore their context
	}
	return unreachable(err)
}

// witness notes when an attempt begins and to what end it comes, and dies
// where the message says so.
func (p *player) witness(c *client.Client) worker.Middleware {
	return func(next worker.HandlerFunc) worker.HandlerFunc {
		return func(ctx context.Context, m *message.Message) (err error) {
			p.h.Add(history.Event{Kind: history.Start, ID: m.ID, Token: m.LeaseToken, Worker: m.WorkerID})
			p.waits.add(m)
			do := decode(m.Payload).Do
			first := m.LeaseToken == 1
			if first && do == dieClaimed {
				die()
			}
			end := history.Fail // of a panic or a Goexit, too
			defer func() {
				p.h.Add(history.Event{Kind: end, ID: m.ID, Token: m.LeaseToken})
				if first && do == dieReturned {
					die()
				}
				if first && do == dieSettled {
					go dieWhenSettled(context.WithoutCancel(ctx), c, m.ID)
				}
			}()
			if err = next(ctx, m); err == nil {
				end = history.Ready
			}
			return err
		}
	}
}

func dieWhenSettled(ctx context.Context, c *client.Client, id int64) {
	for range 200 {
		if m, err := c.Get(ctx, id); err == nil && m.Status != message.StatusProcessing {
			die()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// handle does what the message says.
func (p *player) handle(ctx context.Context, m *worker.Message[job]) error {
	first := m.LeaseToken == 1
	if m.Payload.Do == doIgnore {
		time.Sleep(shortTimeout + 6*time.Second)
		return nil
	}
	if !pause(ctx, time.Duration(m.Payload.MS)*time.Millisecond) {
		return context.Cause(ctx)
	}
	switch m.Payload.Do {
	case dieHandler:
		if first {
			die()
		}
	case doFlaky:
		if m.Attempt == 1 && m.ReplayCount == 0 {
			return errors.New("not yet")
		}
	case doSnooze:
		if m.Snoozes < 3 {
			return worker.Snooze(50 * time.Millisecond)
		}
	case doTx, dieTx, dieCommitted:
		return p.completeTx(ctx, m)
	case doError:
		return errPoison
	case doPermanent:
		return worker.Permanent(errPoison)
	case doPanic:
		panic("poison")
	case doGoexit:
		runtime.Goexit()
	case doRuntime:
		none := []int{}
		none[len(m.Payload.Op)] = 1
	case doNUL:
		return errors.New("a NUL \x00, half a rune \xf0\x9f, and \xff")
	case doHuge:
		return errors.New(strings.Repeat("no end ", 1<<20/7))
	case doExit:
		if p.Spared {
			return errPoison
		}
		os.Exit(exitPoisoned)
	default:
	}
	p.h.Add(history.Event{Kind: history.Effect, ID: m.ID, Token: m.LeaseToken})
	if first && m.Payload.Do == dieEffect {
		die()
	}
	return nil
}

// completeTx commits an effect together with the completion.
func (p *player) completeTx(ctx context.Context, m *worker.Message[job]) error {
	first := m.LeaseToken == 1
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing after the commit
	if _, err := tx.ExecContext(ctx, "INSERT INTO torture_effects (id, token) VALUES (?, ?)", m.ID, m.LeaseToken); err != nil {
		return err
	}
	p.h.Add(history.Event{Kind: history.Ready, ID: m.ID, Token: m.LeaseToken})
	if err := m.CompleteTx(ctx, tx); err != nil {
		if errors.Is(err, message.ErrLeaseLost) {
			p.h.Add(history.Event{Kind: history.Rejected, ID: m.ID, Token: m.LeaseToken})
		}
		return err
	}
	if first && m.Payload.Do == dieTx {
		die()
	}
	err = tx.Commit()
	if first && m.Payload.Do == dieCommitted {
		die()
	}
	return err
}
