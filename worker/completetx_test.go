package worker_test

import (
	"context"
	"database/sql"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

// effects makes a table for what handlers do.
func (r *rig) effects() {
	r.t.Helper()
	_, err := r.db.ExecContext(r.t.Context(), r.text("CREATE TABLE {{s}}effects (message_id bigint NOT NULL)"))
	require.NoError(r.t, err)
}

func (r *rig) effectsOf(id int64) int {
	return r.count("SELECT count(*) FROM {{s}}effects WHERE message_id = ?", id)
}

// An effect and its completion commit together, or neither does; what the
// handler says about it afterwards does not change what is.
func TestCompleteTx(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		r.effects()
		type want struct {
			done  bool
			text  string
			class string
		}
		wants := map[string]want{
			"commit":            {done: true},
			"commit, error":     {done: true},
			"commit, permanent": {done: true},
			"commit, snooze":    {done: true},
			"commit, panic":     {done: true},
			"commit, goexit":    {done: true},
			"twice":             {done: true},
			"sql.Tx":            {done: true},
			"rollback":          {text: "worker: CompleteTx was called, but its transaction was not committed"},
			"rollback, error":   {text: errBroken.Error()},
			"rollback, panic":   {text: "panic: undone", class: "panic(string)"},
			"rollback, goexit":  {text: "handler ended its goroutine by runtime.Goexit", class: "runtime.Goexit"},
		}
		w, log := r.worker(worker.Config{RetryPolicy: worker.Delays{time.Hour}, Concurrency: 4})
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			var tx interface {
				bun.IConn
				Commit() error
				Rollback() error
			}
			var err error
			if m.Payload.Text == "sql.Tx" {
				tx, err = r.db.DB.DB.BeginTx(ctx, nil)
			} else {
				tx, err = r.db.BeginTx(ctx, nil)
			}
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }() // after a commit it does nothing
			if err := insertEffect(ctx, tx, r.text("{{s}}effects"), m.ID); err != nil {
				return err
			}
			if err := m.CompleteTx(ctx, tx); err != nil {
				return err
			}
			if m.Payload.Text == "twice" {
				if err := m.CompleteTx(ctx, tx); err != nil {
					return err
				}
			}
			if wants[m.Payload.Text].done {
				err = tx.Commit()
			} else {
				err = tx.Rollback()
			}
			if err != nil {
				return err
			}
			switch m.Payload.Text {
			case "commit, error", "rollback, error":
				return errBroken
			case "commit, permanent":
				return worker.Permanent(errBroken)
			case "commit, snooze":
				return worker.Snooze(time.Hour)
			case "commit, panic":
				panic("done all the same")
			case "rollback, panic":
				panic("undone")
			case "commit, goexit", "rollback, goexit":
				runtime.Goexit()
			}
			return nil
		}, nil)
		ids := map[string]int64{}
		for name := range wants {
			ids[name] = r.enqueue(job{Text: name}, &client.EnqueueOptions{IdempotencyKey: name})
		}
		run := r.start(w)
		failed := 0
		for name, want := range wants {
			id := ids[name]
			if want.done {
				m := r.wait(message.StatusSucceeded, id)
				require.Zero(t, m.RetryCount, name)
				require.Empty(t, r.attempts(id), name)
				require.Equal(t, 1, r.effectsOf(id), name)
				continue
			}
			failed++
			until(t, "it failed", func() bool { return len(r.attempts(id)) == 1 })
			require.Equal(t, message.StatusPending, r.get(id).Status, name)
			require.Equal(t, want.text, r.attempts(id)[0].ErrorMessage, name)
			if want.class != "" {
				require.Equal(t, want.class, r.attempts(id)[0].ErrorClass, name)
			}
			require.Zero(t, r.effectsOf(id), name)
		}
		require.NoError(t, run.stop())
		require.Len(t, log.lines(t), failed)
	})
}

func insertEffect(ctx context.Context, tx bun.IConn, table string, id int64) error {
	query := "INSERT INTO " + table + " (message_id) VALUES (?)"
	if t, ok := tx.(*sql.Tx); ok {
		query = "INSERT INTO " + table + " (message_id) VALUES (" + literal(id) + ")"
		_, err := t.ExecContext(ctx, query)
		return err
	}
	_, err := tx.ExecContext(ctx, query, id)
	return err
}

// A handler that lost its message cannot complete it.
func TestCompleteTxAfterTheLeaseWasLost(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		r.effects()
		w, log := r.worker(worker.Config{})
		began, resume, result := make(chan int64), make(chan struct{}), make(chan error, 1)
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			if m.Attempt == 2 {
				return nil
			}
			began <- m.ID
			<-resume
			err := r.db.RunInTx(context.WithoutCancel(ctx), nil, func(ctx context.Context, tx bun.Tx) error {
				if err := insertEffect(ctx, tx, r.text("{{s}}effects"), m.ID); err != nil {
					return err
				}
				return m.CompleteTx(ctx, tx)
			})
			result <- err
			return err
		}, nil)
		r.enqueue(job{}, nil)
		r.start(w)
		id := receive(t, began)
		r.overdue(id)
		require.Len(t, r.reap(), 1)
		close(resume)
		require.ErrorIs(t, receive(t, result), message.ErrLeaseLost)
		m := r.wait(message.StatusSucceeded, id)
		require.Equal(t, 1, m.RetryCount)
		require.Zero(t, r.effectsOf(id))
		require.Len(t, r.attempts(id), 1)
		require.Equal(t, message.DecisionTimedOut, message.Decision(r.attempts(id)[0].Reason))
		_ = log
	})
}
