package httpapi

import (
	"maps"
	"slices"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

func of(kind string) object { return object{"type": kind} }

// maybe permits null as well.
func maybe(kind string) object { return object{"type": []string{kind, "null"}} }

func moments() object { return object{"type": "string", "format": "date-time"} }

func maybeMoment() object { return object{"type": []string{"string", "null"}, "format": "date-time"} }

func listOf(items object) object { return object{"type": "array", "items": items} }

func between(kind string, least, most any) object {
	return object{"type": []string{kind, "null"}, "minimum": least, "maximum": most}
}

func oneOf[E ~string](values []E) object { return object{"type": "string", "enum": values} }

// answerOf is an object that always has all its fields, but for those named.
func answerOf(properties object, optional ...string) object {
	required := slices.Sorted(maps.Keys(properties))
	required = slices.DeleteFunc(required, func(name string) bool { return slices.Contains(optional, name) })
	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// bodyOf is an object of which other fields are refused.
func bodyOf(properties object, required ...string) object {
	body := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		body["required"] = required
	}
	return body
}

// pageOf is a page of a list.
func pageOf(name string, items object) object {
	return answerOf(object{name: listOf(items), "count": of("integer"), "next_cursor": maybe("string")})
}

// wholeOf is a list that is no page.
func wholeOf(name string, items object) object {
	return answerOf(object{name: listOf(items), "count": of("integer")})
}

func schemas() object {
	all := requestSchemas()
	maps.Copy(all, answerSchemas())
	return all
}

func answerSchemas() object {
	letter := maps.Clone(messageProperties())
	maps.Copy(letter, letterProperties())
	return object{
		"Message": answerOf(messageProperties()),
		"Enqueued": object{"anyOf": []object{
			ref("Message"), wholeOf("messages", ref("Message")),
		}},
		"Messages": pageOf("messages", ref("Message")),
		"Claimed": object{"anyOf": []object{
			answerOf(object{"claimed": of("boolean"), "message": object{"anyOf": []object{ref("Message"), {"type": "null"}}}}),
			answerOf(object{"claimed": of("boolean"), "messages": listOf(ref("Message"))}),
		}},
		"Settled": answerOf(object{
			"settled": of("integer"),
			"results": listOf(answerOf(object{"id": of("integer"), "ok": of("boolean"), "problem": ref("Problem")}, "problem")),
		}),
		"Attempt":     attemptSchema(),
		"Attempts":    wholeOf("attempts", ref("Attempt")),
		"DeadLetter":  answerOf(letter, "attempts"),
		"DeadLetters": pageOf("dead_letters", ref("DeadLetter")),
		"Purged":      answerOf(object{"purged": of("integer")}),
		"PauseState": answerOf(object{
			"since": moments(), "until": maybeMoment(), "actor": maybe("string"), "reason": maybe("string"),
		}),
		"Queue": answerOf(object{
			"queue": of("string"), "ready": of("integer"), "scheduled": of("integer"), "processing": of("integer"),
			"dead": of("integer"), "oldest_ready": of("number"), "paused": of("boolean"),
			"pause": object{"anyOf": []object{ref("PauseState"), {"type": "null"}}},
		}),
		"Queues": wholeOf("queues", ref("Queue")),
		"Workers": wholeOf("workers", answerOf(object{
			"id": of("integer"), "name": of("string"), "host": of("string"), "pid": of("integer"), "version": of("string"),
			"queues": listOf(of("string")), "kinds": listOf(of("string")), "concurrency": of("integer"), "lease": of("number"),
			"started_at": moments(), "beat_at": moments(),
		})),
		"Health": answerOf(object{
			"schema": of("integer"), "known": of("integer"), "last_tick": maybe("number"), "oldest_transaction": of("number"),
			"oldest_pid": of("integer"), "oldest_query": maybe("string"), "synchronous_commit": of("boolean"),
			"overdue":     of("integer"),
			"unhandled":   listOf(answerOf(object{"queue": of("string"), "kind": of("string")})),
			"connections": of("integer"), "max_connections": of("integer"),
		}),
		"Audit": pageOf("entries", answerOf(object{
			"id": of("integer"), "at": moments(), "action": of("string"), "actor": of("string"), "origin": of("string"),
			"reason": of("string"), "queue": of("string"), "message_id": of("integer"), "affected": of("integer"),
		}, "actor", "origin", "reason", "queue", "message_id")),
		"Alive": answerOf(object{"status": of("string")}),
		"Problem": answerOf(object{
			"type": of("string"), "title": of("string"), "status": of("integer"), "detail": of("string"),
			"errors":         listOf(answerOf(object{"field": of("string"), "code": of("string"), "message": of("string")})),
			"current_status": oneOf(message.Statuses()),
			"message_id":     of("integer"), "index": of("integer"), "purged": of("integer"), "id": of("string"),
		}, "detail", "errors", "current_status", "message_id", "index", "purged", "id"),
	}
}

func messageProperties() object {
	return object{
		"id": of("integer"), "queue": of("string"), "payload": maybe("string"), "status": oneOf(message.Statuses()),
		"retry_count": of("integer"), "max_retries": of("integer"), "retry_after": maybeMoment(), "last_error": maybe("string"),
		"created_at": moments(), "updated_at": moments(),
		"kind": of("string"), "priority": of("integer"), "attempt": of("integer"), "processing_timeout": maybe("number"),
		"expires_at": maybeMoment(), "headers": object{"type": "object", "additionalProperties": of("string")},
		"tenant": maybe("string"), "correlation_id": maybe("string"), "idempotency_key": maybe("string"),
		"lease_token": of("integer"), "deadline": maybeMoment(), "worker_losses": of("integer"), "snoozes": of("integer"),
		"replay_count": of("integer"), "payload_bytes": of("integer"), "payload_truncated": of("boolean"),
	}
}

func letterProperties() object {
	properties := object{
		"letter_id": of("integer"), "decision": oneOf(message.Decisions()), "attempts_used": of("integer"),
		"first_failed_at": maybeMoment(), "last_failed_at": maybeMoment(), "dead_at": moments(), "resolved_at": maybeMoment(),
		"attempts": listOf(ref("Attempt")),
	}
	for _, name := range []string{
		"failure_kind", "error_class", "error_message", "stack", "fingerprint", "resolution", "resolved_by", "resolve_reason",
		"worker_version", "trace_id",
	} {
		properties[name] = maybe("string")
	}
	return properties
}

func attemptSchema() object {
	properties := object{
		"id": of("integer"), "message_id": of("integer"), "attempt": of("integer"), "lease_token": of("integer"),
		"outcome": of("string"), "charged": of("boolean"), "failure_kind": of("string"), "error_class": of("string"),
		"error_message": of("string"), "stack": of("string"), "worker_id": of("integer"), "reason": of("string"),
		"started_at": moments(), "finished_at": moments(), "retry_after": moments(), "trace_id": of("string"),
	}
	return answerOf(properties, "failure_kind", "error_class", "error_message", "stack", "reason", "started_at", "retry_after", "trace_id")
}

func requestSchemas() object {
	lease := between("number", 1, message.MaxTimeout.Seconds())
	token := object{"type": []string{"integer", "null"}, "minimum": 1}
	delay := between("number", 0, message.MaxDelay.Seconds())
	failure := object{
		"lease_token": token, "error": maybe("string"), "error_class": maybe("string"), "stack": maybe("string"),
		"failure_kind": object{"enum": []any{message.FailureTransient, message.FailurePermanent, message.FailureUnknown, nil}},
		"retry_in":     delay,
	}
	settlement := maps.Clone(failure)
	maps.Copy(settlement, object{
		"id": object{"type": "integer", "minimum": 1}, "delay": delay,
		"verb": oneOf([]client.SettleVerb{client.VerbSucceed, client.VerbFail, client.VerbRelease}),
	})
	return object{
		"NewMessage": bodyOf(object{
			"payload":     object{"type": "string", "minLength": 1},
			"max_retries": object{"type": []string{"integer", "null"}, "minimum": 1, "maximum": MaxMaxRetries, "default": DefaultMaxRetries},
			"kind":        object{"type": []string{"string", "null"}, "minLength": 1, "default": DefaultKind},
			"priority":    between("integer", message.MinPriority, message.MaxPriority), "delay": delay, "run_at": maybeMoment(),
			"processing_timeout": between("number", 0.001, message.MaxTimeout.Seconds()), "expires_in": delay,
			"idempotency_key": maybe("string"), "tenant": maybe("string"), "correlation_id": maybe("string"),
			"headers": object{"type": []string{"object", "null"}, "additionalProperties": of("string")},
		}, "payload"),
		"Enqueue": object{"anyOf": []object{
			ref("NewMessage"),
			bodyOf(object{"messages": object{"type": "array", "items": ref("NewMessage"), "minItems": 1, "maxItems": MaxBatch}}, "messages"),
		}},
		"Claim": bodyOf(object{
			"max": between("integer", 1, MaxClaim), "kinds": object{"type": []string{"array", "null"}, "items": of("string")},
			"wait": between("number", 0, client.MaxWait.Seconds()), "lease": lease,
		}),
		"Succeed": bodyOf(object{"lease_token": token}),
		"Fail":    bodyOf(failure),
		"Release": bodyOf(object{"lease_token": token, "delay": delay}),
		"Extend":  bodyOf(object{"lease_token": token, "lease": lease}),
		"Settle": bodyOf(object{
			"settlements": object{"type": "array", "maxItems": client.MaxSettle, "items": bodyOf(settlement, "id", "verb")},
		}, "settlements"),
		"Reason": bodyOf(object{"reason": maybe("string")}),
		"Pause":  bodyOf(object{"until": maybeMoment(), "for": delay, "reason": maybe("string")}),
		"Purge": bodyOf(object{
			"message_id": token, "queue": maybe("string"), "older_than": delay, "resolved": maybe("boolean"), "all": maybe("boolean"),
			"reason": maybe("string"),
		}),
	}
}
