package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

func TestEveryErrorHasItsProblem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want *kind
	}{
		{message.ErrNotFound, notFound},
		{message.ErrLeaseLost, leaseLost},
		{&message.StateError{ID: 1, Operation: "replay", Current: message.StatusPending}, wrongState},
		{&message.ValidationError{Field: "f", Code: "invalid", Message: "m"}, invalid},
		{&message.DuplicateError{ID: 1}, keyHeld},
		{&message.DuplicateError{ID: 1, Mismatch: true}, keyReused},
		{&http.MaxBytesError{Limit: 1}, tooLarge},
		{message.ErrSchemaMissing, unavailable},
		{message.ErrSchemaNewer, unavailable},
		{client.ErrUnavailable, unavailable},
		{client.ErrContention, unavailable},
		{context.DeadlineExceeded, unavailable},
		{context.Canceled, unavailable},
		{errors.New("SELECT secret FROM /etc/passwd"), internal},
		{errBusy, tooManyRequests},
	} {
		p := problemOf(fmt.Errorf("do something secret: %w", c.err))
		require.Equal(t, c.want.name, p.kind.name, c.err)
		require.Equal(t, c.want.status, p.Status)
		require.NotContains(t, p.Detail, "secret")
	}
}

func TestAllThatIsRefusedIsTold(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("enqueue: %w", errors.Join(
		&message.ValidationError{Field: "messages[3].timeout", Code: "out_of_range", Message: "timeout must be less."},
		fmt.Errorf("also: %w", &message.ValidationError{Field: "class", Code: "encoding", Message: "class must be text."}),
	))
	require.Equal(t, []fieldError{
		{"messages[3].processing_timeout", "out_of_range", "processing_timeout must be less."},
		{"error_class", "encoding", "error_class must be text."},
	}, problemOf(err).Errors)
}
