// Package origin tells which message's handler a context belongs to, so that
// what a handler enqueues belongs together with what made it. The packages
// client and worker, which do not know each other, meet here.
package origin

import (
	"context"

	"github.com/styxmq/styx/client/message"
)

type key struct{}

// Key is under what a handler's context answers with its *message.Message.
var Key any = key{}

// Of returns the message whose handler ctx, or what it is derived from, was
// given to; nil outside a handler. It must not be changed.
func Of(ctx context.Context) *message.Message {
	m, _ := ctx.Value(Key).(*message.Message)
	return m
}
