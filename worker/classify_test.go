package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

type statusError int

func (e statusError) Error() string   { return fmt.Sprint("status ", int(e)) }
func (e statusError) StatusCode() int { return int(e) }

type stateError string

func (e stateError) Error() string    { return "state " + string(e) }
func (e stateError) SQLState() string { return string(e) }

func TestDefaultClassifier(t *testing.T) {
	t.Parallel()
	const transient, permanent, unknown = message.FailureTransient, message.FailurePermanent, message.FailureUnknown
	for want, errs := range map[message.FailureKind][]error{
		transient: {
			worker.ErrTimeout, context.DeadlineExceeded, io.ErrUnexpectedEOF,
			&net.OpError{Op: "dial", Err: errBroken}, &net.DNSError{Name: "example.invalid"},
			statusError(408), statusError(425), statusError(429), statusError(500), statusError(503), statusError(599),
			stateError("08006"), stateError("40001"), stateError("40P01"), stateError("53300"), stateError("57P01"),
			stateError("55P03"), stateError("57014"),
		},
		permanent: {&worker.DecodeError{Kind: "k", Err: errBroken}, &message.ValidationError{Field: "f"}},
		unknown: {
			errBroken, context.Canceled, io.EOF, worker.ErrShutdown,
			statusError(400), statusError(404), statusError(422), statusError(600), statusError(0), statusError(-1),
			stateError("23505"), stateError("22001"), stateError("55000"), stateError(""),
		},
	} {
		for _, err := range errs {
			require.Equal(t, want, worker.DefaultClassifier(err), "%T %v", err, err)
			require.Equal(t, want, worker.DefaultClassifier(wrap(err)), "wrapped %T %v", err, err)
		}
	}
}

func TestClassifiers(t *testing.T) {
	t.Parallel()
	c := worker.Classifiers(
		worker.ClassifyIs(errBroken, message.FailurePermanent),
		worker.ClassifyAs[statusError](message.FailureTransient),
		func(error) message.FailureKind { return "" },
		worker.ClassifyAs[interface {
			error
			SQLState() string
		}](message.FailurePermanent),
	)
	require.Equal(t, message.FailurePermanent, c(wrap(errBroken)))
	require.Equal(t, message.FailureTransient, c(wrap(statusError(404))))
	require.Equal(t, message.FailurePermanent, c(stateError("40001")))
	require.Equal(t, message.FailurePermanent, c(errors.Join(statusError(1), errBroken)), "the first classifier, not the first error")
	require.Empty(t, c(io.EOF))
	require.Empty(t, worker.Classifiers()(io.EOF))
}

// The kind's classifier is asked first, then the worker's, then the default
// one; an outcome needs none; one that panics or says nonsense says nothing.
// Reported as hibiken/asynq#1132.
func TestClassifierOrder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		errs := map[string]error{
			"kind": statusError(1), "worker": statusError(2), "default": io.ErrUnexpectedEOF, "nobody": errBroken,
			"nonsense": statusError(3), "panic of the kind": statusError(4), "panic of both": statusError(503),
			"outcome": worker.RetryAfter(time.Hour, statusError(1)), "panic of the handler": nil,
		}
		wants := map[string]message.FailureKind{
			"kind": message.FailurePermanent, "worker": message.FailurePermanent, "default": message.FailureTransient,
			"nobody": message.FailureUnknown, "nonsense": message.FailureUnknown,
			"panic of the kind": message.FailurePermanent, "panic of both": message.FailureTransient,
			"outcome": message.FailureTransient, "panic of the handler": message.FailureUnknown,
		}
		code := func(err error) (code int) {
			var s statusError
			if errors.As(err, &s) {
				return int(s)
			}
			return 0
		}
		w, log := r.worker(worker.Config{RetryPolicy: worker.Delays{time.Hour}, Classifier: func(err error) message.FailureKind {
			switch code(err) {
			case 1, 503:
				panic("the worker's classifier")
			case 2, 4:
				return message.FailurePermanent
			}
			return ""
		}})
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			if errs[m.Payload.Text] == nil {
				panic(io.ErrUnexpectedEOF) // transient if it were returned
			}
			return errs[m.Payload.Text]
		}, &worker.HandlerOptions{Classifier: func(err error) message.FailureKind {
			switch code(err) {
			case 1:
				return message.FailurePermanent
			case 3:
				return "nonsense"
			case 4, 503:
				panic("the kind's classifier")
			}
			return ""
		}})
		ids := map[string]int64{}
		for name := range errs {
			ids[name] = r.enqueue(job{Text: name}, nil)
		}
		r.start(w)
		for name, want := range wants {
			until(t, "it failed", func() bool { return len(r.attempts(ids[name])) == 1 })
			require.Equal(t, want, r.attempts(ids[name])[0].FailureKind, name)
		}
		require.Len(t, log.lines(t, "callback panicked, the default is used"), 3)
		require.Len(t, log.lines(t, lineFailed, lineDead), len(errs))
	})
}
