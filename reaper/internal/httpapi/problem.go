package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

// problemBase stands before the name of a problem in its type.
const problemBase = "urn:styx:problem:"

// kind is a sort of problem. Name and title never change for one.
type kind struct {
	name, title string
	status      int
	// retry is the value of Retry-After in seconds, 0 for none.
	retry int
}

var (
	invalidJSON     = &kind{name: "invalid-json", title: "Invalid JSON", status: http.StatusBadRequest}
	unauthorized    = &kind{name: "unauthorized", title: "Unauthorized", status: http.StatusUnauthorized}
	forbidden       = &kind{name: "forbidden", title: "Forbidden", status: http.StatusForbidden}
	crossOrigin     = &kind{name: "cross-origin", title: "Cross-Origin Request Refused", status: http.StatusForbidden}
	notFound        = &kind{name: "not-found", title: "Not Found", status: http.StatusNotFound}
	wrongMethod     = &kind{name: "method-not-allowed", title: "Method Not Allowed", status: http.StatusMethodNotAllowed}
	slowBody        = &kind{name: "request-timeout", title: "Request Timeout", status: http.StatusRequestTimeout}
	wrongState      = &kind{name: "conflict-state", title: "Wrong State", status: http.StatusConflict}
	leaseLost       = &kind{name: "lease-lost", title: "Lease Lost", status: http.StatusConflict}
	keyHeld         = &kind{name: "idempotency-key-held", title: "Idempotency Key Held", status: http.StatusConflict}
	tooLarge        = &kind{name: "payload-too-large", title: "Payload Too Large", status: http.StatusRequestEntityTooLarge}
	wrongMedia      = &kind{name: "unsupported-media-type", title: "Unsupported Media Type", status: http.StatusUnsupportedMediaType}
	wrongHost       = &kind{name: "misdirected-request", title: "Misdirected Request", status: http.StatusMisdirectedRequest}
	invalid         = &kind{name: "validation-failed", title: "Validation Failed", status: http.StatusUnprocessableEntity}
	keyReused       = &kind{name: "idempotency-key-reused", title: "Idempotency Key Reused", status: http.StatusUnprocessableEntity}
	tooManyRequests = &kind{name: "too-many-requests", title: "Too Many Requests", status: http.StatusTooManyRequests, retry: 1}
	internal        = &kind{name: "internal", title: "Internal Server Error", status: http.StatusInternalServerError}
	unavailable     = &kind{name: "unavailable", title: "Service Unavailable", status: http.StatusServiceUnavailable, retry: 5}
	notReady        = &kind{name: "not-ready", title: "Not Ready", status: http.StatusServiceUnavailable, retry: 5}
)

// problem is the body of an answer that is no success; it is also the error of
// a handler that refuses by itself.
type problem struct {
	kind   *kind
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Errors are the values that were refused.
	Errors []fieldError `json:"errors,omitempty"`
	// Current is where the message stands, for conflict-state.
	Current message.Status `json:"current_status,omitempty"`
	// MessageID holds the key, for idempotency-key-held and -reused; Index
	// is the position in a batch.
	MessageID int64 `json:"message_id,omitempty"`
	Index     *int  `json:"index,omitempty"`
	// Purged is how many letters a purge had deleted when it failed.
	Purged *int `json:"purged,omitempty"`
	// ID finds the cause in the log.
	ID string `json:"id,omitempty"`
}

// fieldError is one value that was refused.
type fieldError struct {
	Field   string `json:"field"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error is for the log.
func (p *problem) Error() string { return p.Title + ": " + p.Detail }

func (k *kind) problem(detail string) *problem {
	return &problem{kind: k, Type: problemBase + k.name, Title: k.title, Status: k.status, Detail: detail}
}

// table leads from an error to a problem; the first match counts. The texts
// of errors stay out of it: only what is ours to say goes to the caller.
var table = []struct {
	match func(err error) bool
	make  func(err error) *problem
}{
	{as[*problem], func(err error) *problem { p, _ := errors.AsType[*problem](err); return p }},
	{as[*message.ValidationError], func(err error) *problem { return refuse(fieldErrors(err)...) }},
	{as[*message.StateError], stateProblem},
	{as[*message.DuplicateError], duplicateProblem},
	{is(message.ErrLeaseLost), says(leaseLost, "The message is not held under this lease_token any more.")},
	{is(message.ErrNotFound), says(notFound, "There is no such message in this queue.")},
	{as[*http.MaxBytesError], says(tooLarge, "The body is larger than this server takes.")},
	{is(message.ErrSchemaMissing), says(unavailable, "The database has no schema of this version.")},
	{is(message.ErrSchemaNewer), says(unavailable, "The database has a newer schema than this server knows.")},
	{is(client.ErrUnavailable), says(unavailable, "The database cannot be reached.")},
	{is(client.ErrContention), says(unavailable, "The database was too busy.")},
	{is(context.DeadlineExceeded), says(unavailable, "The request took too long.")},
	{is(context.Canceled), says(unavailable, "The request was given up.")},
	{func(error) bool { return true }, says(internal, "Something failed; the log tells more under this id.")},
}

func problemOf(err error) *problem {
	for _, row := range table {
		if row.match(err) {
			return row.make(err)
		}
	}
	return nil
}

func as[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

func says(k *kind, detail string) func(error) *problem {
	return func(error) *problem { return k.problem(detail) }
}

func stateProblem(err error) *problem {
	state, _ := errors.AsType[*message.StateError](err)
	p := wrongState.problem("The message is " + string(state.Current) + ".")
	p.Current = state.Current
	return p
}

func duplicateProblem(err error) *problem {
	dup, _ := errors.AsType[*message.DuplicateError](err)
	k, detail := keyHeld, "Another message holds this idempotency key."
	if dup.Mismatch {
		k, detail = keyReused, "This idempotency key was used before with another kind or payload."
	}
	p := k.problem(detail)
	p.MessageID = dup.ID
	return p
}

// refuse is a refusal of values.
func refuse(errs ...fieldError) *problem {
	p := invalid.problem("")
	p.Errors = errs
	return p
}
