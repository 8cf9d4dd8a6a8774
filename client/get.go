package client

import (
	"context"
	"fmt"

	"github.com/styxmq/styx/client/message"
)

// MaxAttempts is the largest number of attempts that [Client.Attempts]
// returns.
const MaxAttempts = 1000

// Get returns the message with the given id wherever it stands, or
// [message.ErrNotFound]. Succeeded messages are found for as long as the
// archive keeps them.
func (c *Client) Get(ctx context.Context, id int64) (*message.Message, error) {
	m, err := c.store.Get(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("get message %d: %w", id, err)
	}
	return &m, nil
}

// Attempts returns the attempts of a message that did not succeed, oldest
// first; of more than MaxAttempts the newest. A message that has none gives
// none, one that does not exist [message.ErrNotFound].
func (c *Client) Attempts(ctx context.Context, id int64) ([]message.Attempt, error) {
	attempts, err := c.store.Attempts(ctx, id, MaxAttempts)
	if err != nil {
		return nil, fmt.Errorf("get attempts of message %d: %w", id, err)
	}
	return attempts, nil
}
