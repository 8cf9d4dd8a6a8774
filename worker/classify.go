package worker

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/styxmq/styx/client/message"
)

// Classifier tells what sort of failure an error is; "" leaves it to the next
// one. It must be safe for concurrent use; a panic counts as "".
type Classifier func(err error) message.FailureKind

// ClassifyAs gives a kind to every error that has an E in its chain.
func ClassifyAs[E error](kind message.FailureKind) Classifier {
	return func(err error) message.FailureKind {
		var target E
		if errors.As(err, &target) {
			return kind
		}
		return ""
	}
}

// ClassifyIs gives a kind to every error that is target.
func ClassifyIs(target error, kind message.FailureKind) Classifier {
	return func(err error) message.FailureKind {
		if errors.Is(err, target) {
			return kind
		}
		return ""
	}
}

// Classifiers asks each in turn; put the most specific first. The first
// answer counts.
func Classifiers(all ...Classifier) Classifier {
	return func(err error) message.FailureKind {
		for _, c := range all {
			if kind := c(err); kind != "" {
				return kind
			}
		}
		return ""
	}
}

// DefaultClassifier knows what is the same everywhere. Transient: timeouts,
// network errors, HTTP-like errors that say 408, 425, 429 or 5xx by a method
// StatusCode, database errors whose SQLSTATE means that a repetition may
// succeed. Permanent: a payload that cannot be decoded or is refused by
// validation. Everything else is unknown.
func DefaultClassifier(err error) message.FailureKind {
	var (
		decode  *DecodeError
		invalid *message.ValidationError
		network net.Error
		status  interface{ StatusCode() int }
		state   interface{ SQLState() string }
	)
	switch {
	case errors.As(err, &decode), errors.As(err, &invalid):
		return message.FailurePermanent
	case errors.Is(err, ErrTimeout), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return message.FailureTransient
	case errors.As(err, &status) && retryableStatus(status.StatusCode()):
		return message.FailureTransient
	case errors.As(err, &state) && retryableState(state.SQLState()):
		return message.FailureTransient
	}
	return message.FailureUnknown
}

func retryableStatus(code int) bool {
	return code == 408 || code == 425 || code == 429 || code >= 500 && code <= 599
}

// retryableState knows the classes 08 (connection), 40 (rollback), 53
// (resources), 57 (operator intervention) and 55P03 (lock not available) of
// the SQL standard and of PostgreSQL's appendix A.
func retryableState(state string) bool {
	for _, class := range []string{"08", "40", "53", "57P"} {
		if strings.HasPrefix(state, class) {
			return true
		}
	}
	return state == "55P03" || state == "57014"
}
