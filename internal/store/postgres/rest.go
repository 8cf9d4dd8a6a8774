package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/styxmq/styx/internal/store"
)

// restParts is the number of parts of the column rest.
const restParts = 12

func parseRest(text string, m *store.Claimed) (err error) {
	part := strings.SplitN(text, "\x1f", restParts)
	if len(part) != restParts {
		return fmt.Errorf("%d parts instead of %d", len(part), restParts)
	}
	var numbers [8]int64
	for i := range numbers {
		if part[i] == "" {
			continue
		}
		if numbers[i], err = strconv.ParseInt(part[i], 10, 64); err != nil {
			return err
		}
	}
	m.Priority, m.RetryCount, m.Timeout = int(numbers[0]), int(numbers[1]), timeoutOf(numbers[2])
	m.WorkerLosses, m.Snoozes, m.ReplayCount = int(numbers[3]), int(numbers[4]), int(numbers[5])
	if part[6] != "" {
		m.RetryAfter = time.UnixMicro(numbers[6]).UTC()
	}
	if part[7] != "" {
		m.ExpiresAt = time.UnixMicro(numbers[7]).UTC()
	}
	m.Tenant, m.CorrelationID, m.IdempotencyKey, m.LastError = part[8], part[9], part[10], part[11]
	return nil
}

// timeoutOf turns the column timeout_ms into a duration: negative is -1.
func timeoutOf(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}
