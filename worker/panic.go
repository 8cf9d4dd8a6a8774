package worker

import (
	"fmt"

	"github.com/styxmq/styx/internal/failure"
)

// PanicError is the failure of a handler or middleware that panicked, or
// ended its goroutine by runtime.Goexit. Find it with errors.As.
type PanicError struct {
	// Value is what was passed to panic; nil for Goexit.
	Value any
	// Stack holds the frames below the panic.
	Stack string

	frame string
}

// Error shows the value, however it likes to be shown.
func (e *PanicError) Error() (text string) {
	if e.Value == nil {
		return "handler ended its goroutine by runtime.Goexit"
	}
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("panic: %T (which panics when it is shown)", e.Value)
		}
	}()
	return "panic: " + fmt.Sprint(e.Value)
}

// Unwrap returns the value when it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ErrorClass names the value's type.
func (e *PanicError) ErrorClass() string {
	if e.Value == nil {
		return "runtime.Goexit"
	}
	return fmt.Sprintf("panic(%T)", e.Value)
}

// cause is what is logged of it.
func (e *PanicError) cause() any {
	if e.Value == nil {
		return e.ErrorClass()
	}
	return e.Value
}

// apart calls what others have written in a goroutine of its own and waits for
// it: a runtime.Goexit there, such as that of a test which fails, must not end
// the goroutine that has a message to settle. It returns nil when f returned.
func apart(f func()) *PanicError {
	end := make(chan *PanicError)
	go func() {
		returned := false
		defer func() {
			if returned {
				end <- nil
			} else {
				end <- panicked(recover())
			}
		}()
		f()
		returned = true
	}()
	return <-end
}

// panicked makes the error in a deferred function.
func panicked(value any) *PanicError {
	stack, frame := failure.Stack("github.com/styxmq/styx/worker.")
	return &PanicError{Value: value, Stack: stack, frame: frame}
}
