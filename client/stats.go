package client

import (
	"context"
	"fmt"
	"time"

	"github.com/styxmq/styx/internal/store"
)

// StatsCap bounds every count of [QueueStats]: a count that reaches it means
// that many or more.
const StatsCap = store.StatsCap

// QueueStats counts the messages of one queue that are not done, each count
// up to StatsCap.
type QueueStats struct {
	Queue string `json:"queue"`
	// Ready are pending and due, Scheduled are pending until later.
	Ready     int `json:"ready"`
	Scheduled int `json:"scheduled"`
	// Processing are held by workers.
	Processing int `json:"processing"`
	// Dead are letters that wait for somebody.
	Dead int `json:"dead"`
	// OldestReady is how long the oldest ready message has been due.
	OldestReady time.Duration `json:"oldest_ready"`
}

// Stats returns the counts of every queue that has some, by name. Its
// cost grows with the number of queues, not of messages, so that a dashboard
// may ask once a second.
func (c *Client) Stats(ctx context.Context) ([]QueueStats, error) {
	counted, err := c.store.Stats(ctx)
	if err != nil {
		return nil, fmt.Errorf("count queues: %w", err)
	}
	stats := make([]QueueStats, len(counted))
	for i, s := range counted {
		stats[i] = QueueStats(s)
	}
	return stats, nil
}
