package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/name"
)

// Payload is a type that names its kind. Kind must not depend on the value:
// it is called on the zero value.
type Payload interface{ Kind() string }

// Message is a message in a handler's hands. A literal of it serves to test a
// handler: its methods then do nothing and return nil.
type Message[T any] struct {
	message.Message
	// Payload is the decoded payload. The text as it was enqueued is
	// Message.Payload.
	Payload T

	task *task
}

// CompleteTx records the success of this message as part of the caller's
// transaction: its effects and the completion commit together, or neither
// does. After it the handler should commit and return nil. When the handler
// returns, the worker looks whether it was committed: then the message has
// succeeded, whatever was returned; otherwise the returned error counts, and
// nil is a failure. It returns message.ErrLeaseLost when this worker does not
// hold the message any more; the transaction should then be rolled back. A
// second call in the same transaction changes nothing.
func (m *Message[T]) CompleteTx(ctx context.Context, tx bun.IConn) error {
	if m.task == nil {
		return nil
	}
	return m.task.completeTx(ctx, tx)
}

// Extend gives the handler d more from now on, in place of what is left of
// its timeout, and moves the deadline in the database with it. It returns
// message.ErrLeaseLost when this worker does not hold the message any more. A
// worker that lives keeps its lease without it.
func (m *Message[T]) Extend(ctx context.Context, d time.Duration) error {
	if m.task == nil {
		return nil
	}
	return m.task.extend(ctx, d)
}

// HandlerFunc is a handler as middleware sees it.
type HandlerFunc func(ctx context.Context, m *message.Message) error

// Middleware wraps a handler. It may read the message and return another
// error; a panic in it is a failure of the message.
type Middleware func(next HandlerFunc) HandlerFunc

// HandlerOptions are the settings of one kind. The zero value leaves all to
// the queue and the worker.
type HandlerOptions struct {
	// Timeout limits one attempt of this kind; -1 means no limit.
	Timeout time.Duration
	// RetryPolicy gives the delay of a retry of this kind.
	RetryPolicy RetryPolicy
	// Classifier is asked about errors of this kind before the worker's.
	Classifier Classifier
	// Aliases are former names of the kind, whose messages are handled
	// alike.
	Aliases []string
}

// handler is a registered handler.
type handler struct {
	options HandlerOptions
	// run decodes the payload and calls the user's function.
	run func(ctx context.Context, t *task) error
}

// Handle registers the handler of T's kind. T may be a pointer type, fn a
// method value. opts may be nil. It must be called before Run; it panics on a
// kind that is invalid or has a handler already, and after Run has begun.
func Handle[T Payload](w *Worker, fn func(ctx context.Context, m *Message[T]) error, opts *HandlerOptions) {
	kind := kindOf[T]()
	w.register(kind, opts, func(ctx context.Context, t *task) error {
		m := &Message[T]{Message: t.m.Message, task: t}
		if err := decode(t.m.Payload, &m.Payload); err != nil {
			return &DecodeError{Kind: t.m.Kind, Err: err}
		}
		return fn(ctx, m)
	})
}

// texts are buffers for decode: encoding/json forbids to keep what it hands to
// an UnmarshalJSON.
var texts = sync.Pool{New: func() any { return new([]byte) }}

// maxText is the size up to which a buffer is kept.
const maxText = 64 << 10

func decode(payload string, into any) error {
	if len(payload) > maxText {
		return json.Unmarshal([]byte(payload), into)
	}
	text := texts.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer texts.Put(text)
	*text = append((*text)[:0], payload...)
	return json.Unmarshal(*text, into)
}

// HandleQueue registers a handler for every message of a queue whose kind has
// no handler of its own; the payload is its text. opts may be nil. The queue
// must be one that the worker serves. It panics as Handle does.
func HandleQueue(w *Worker, queue string, fn func(ctx context.Context, m *Message[string]) error, opts *HandlerOptions) {
	w.registerQueue(queue, opts, func(ctx context.Context, t *task) error {
		return fn(ctx, &Message[string]{Message: t.m.Message, Payload: t.m.Payload, task: t})
	})
}

// kindOf calls Kind on a value of T that is safe to call it on.
func kindOf[T Payload]() string {
	var zero T
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		zero = reflect.New(t.Elem()).Interface().(T) //nolint:forcetypeassert // a new T is a T
	}
	return zero.Kind()
}

// DecodeError reports a payload that does not fit its handler's type. It is
// a permanent failure.
type DecodeError struct {
	Kind string
	Err  error
}

// Error names the kind and the cause.
func (e *DecodeError) Error() string { return fmt.Sprintf("decode payload of %q: %v", e.Kind, e.Err) }

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// ErrorClass groups these errors together.
func (e *DecodeError) ErrorClass() string { return "worker.DecodeError" }

func (w *Worker) register(kind string, opts *HandlerOptions, run func(context.Context, *task) error) {
	h := newHandler(opts, run)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mustBeNew("Handle")
	for _, k := range append([]string{kind}, h.options.Aliases...) {
		if err := name.Check("kind", k); err != nil {
			panic(fmt.Sprintf("worker: Handle: %v", err))
		}
		if w.handlers[k] != nil {
			panic(fmt.Sprintf("worker: Handle: kind %q has a handler already", k))
		}
		w.handlers[k] = h
	}
}

func (w *Worker) registerQueue(queue string, opts *HandlerOptions, run func(context.Context, *task) error) {
	h := newHandler(opts, run)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mustBeNew("HandleQueue")
	served := false
	for _, q := range w.cfg.Queues {
		served = served || q.Name == queue
	}
	if !served {
		panic(fmt.Sprintf("worker: HandleQueue: queue %q is not among Config.Queues", queue))
	}
	if w.queueHandlers[queue] != nil {
		panic(fmt.Sprintf("worker: HandleQueue: queue %q has a handler already", queue))
	}
	w.queueHandlers[queue] = h
}

func newHandler(opts *HandlerOptions, run func(context.Context, *task) error) *handler {
	h := &handler{run: run}
	if opts != nil {
		h.options = *opts
		if t := opts.Timeout; t < -1 || t > message.MaxTimeout {
			panic("worker: HandlerOptions.Timeout must be positive and at most 30 days, or -1 for none")
		}
	}
	return h
}
