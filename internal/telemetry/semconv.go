package telemetry

import semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

// SchemaURL names the version of the conventions that spans and metrics
// follow. This file is the only one that knows it.
const SchemaURL = semconv.SchemaURL

// System is messaging.system.
const System = "styx"

// The keys of the conventions.
const (
	KeySystem        = semconv.MessagingSystemKey
	KeyOperation     = semconv.MessagingOperationNameKey
	KeyOperationType = semconv.MessagingOperationTypeKey
	KeyDestination   = semconv.MessagingDestinationNameKey
	KeyMessageID     = semconv.MessagingMessageIDKey
	KeyConversation  = semconv.MessagingMessageConversationIDKey
	KeyBatchCount    = semconv.MessagingBatchMessageCountKey
	KeyErrorType     = semconv.ErrorTypeKey
)

// The operations, by messaging.operation.name. The first three are types of
// the conventions too.
const (
	OperationSend       = "send"
	OperationProcess    = "process"
	OperationSettle     = "settle"
	OperationDeadLetter = "dead_letter"
	OperationReap       = "reap"
)
