package telemetry

import (
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client/message"
)

// The keys that the conventions do not have.
const (
	// KeyKind is the message's kind.
	KeyKind = attribute.Key("styx.kind")
	// KeyAttempt is the number of the attempt, from 1 on, and KeyMaxAttempts
	// how many there may be.
	KeyAttempt     = attribute.Key("styx.attempt")
	KeyMaxAttempts = attribute.Key("styx.max_attempts")
	// KeyReplayCount is how often the message was put back from the dead;
	// absent when it never was.
	KeyReplayCount = attribute.Key("styx.replay_count")
	// KeyOutcome is what became of an attempt.
	KeyOutcome = attribute.Key("styx.outcome")
	// KeyDecision is why a message is dead, or why the reaper moved it.
	KeyDecision = attribute.Key("styx.decision")
	// KeyLeaseLost counts the outcomes of a settle that came too late.
	KeyLeaseLost = attribute.Key("styx.lease_lost")
	// KeyDead counts the messages that a tick of the reaper has ended.
	KeyDead = attribute.Key("styx.dead")
	// KeyLink says what a link leads to: LinkCreation or LinkDeath.
	KeyLink = attribute.Key("styx.link")
)

// The values of KeyLink.
const (
	// LinkCreation leads to the span that enqueued the message.
	LinkCreation = "creation"
	// LinkDeath leads to the attempt in which a replayed message had died.
	LinkDeath = "death"
	// LinkAttempt leads to the attempt whose outcome is settled.
	LinkAttempt = "attempt"
)

// The values of KeyOutcome.
const (
	OutcomeSucceeded = "succeeded"
	OutcomeIgnored   = "ignored"
	OutcomeRetried   = "retried"
	OutcomeDead      = "dead"
	OutcomeReleased  = "released"
	OutcomeSnoozed   = "snoozed"
	OutcomeLeaseLost = "lease_lost"
)

// SpanName is the name of a span: the operation and its queue, or the
// operation alone for several queues.
func SpanName(operation, queue string) string {
	if queue == "" {
		return operation
	}
	return operation + " " + queue
}

// Operation describes what is done with the messages of a queue; an empty
// queue is several.
func Operation(operation, queue string) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 10)
	attrs = append(attrs, KeySystem.String(System), KeyOperation.String(operation))
	switch operation {
	case OperationSend, OperationProcess, OperationSettle:
		attrs = append(attrs, KeyOperationType.String(operation))
	}
	if queue != "" {
		attrs = append(attrs, KeyDestination.String(queue))
	}
	return attrs
}

// Describe describes one attempt of a message.
func Describe(operation string, m *message.Message) []attribute.KeyValue {
	attrs := append(Operation(operation, m.Queue),
		ID(m.ID), KeyKind.String(m.Kind), KeyAttempt.Int(m.Attempt), KeyMaxAttempts.Int(m.MaxRetries))
	if m.CorrelationID != "" {
		attrs = append(attrs, KeyConversation.String(m.CorrelationID))
	}
	if m.ReplayCount > 0 {
		attrs = append(attrs, KeyReplayCount.Int(m.ReplayCount))
	}
	return attrs
}

// Identify adds to a span, if anybody records it, what only this message has:
// what an Opening leaves out. An id of 0 is not known yet.
func Identify(span trace.Span, id int64, conversation string) {
	defer func() { _ = recover() }()
	if !span.IsRecording() {
		return
	}
	attrs := make([]attribute.KeyValue, 0, 2)
	if id != 0 {
		attrs = append(attrs, ID(id))
	}
	if conversation != "" {
		attrs = append(attrs, KeyConversation.String(conversation))
	}
	span.SetAttributes(attrs...)
}

// ID is the attribute of a message's id.
func ID(id int64) attribute.KeyValue { return KeyMessageID.String(strconv.FormatInt(id, 10)) }

// Link leads to a span and says which one that is.
func Link(sc trace.SpanContext, to string, attrs ...attribute.KeyValue) trace.Link {
	if len(attrs) == 0 && to == LinkCreation {
		return trace.Link{SpanContext: sc, Attributes: toCreation}
	}
	return trace.Link{SpanContext: sc, Attributes: append(attrs, KeyLink.String(to))}
}

// toCreation is of most links. It is shared, and full.
var toCreation = []attribute.KeyValue{KeyLink.String(LinkCreation)}
