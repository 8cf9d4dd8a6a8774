package httpapi

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

// operation is what the description tells of a route beyond the table.
type operation struct {
	parameters []object
	// request and response are names of schemas.
	request, response string
	// media is that of an answer that is no JSON of ours.
	media    string
	headers  object
	success  []int
	problems []int
}

// operations are by the names of the routes.
var operations = sync.OnceValue(func() map[string]operation {
	fine := []int{http.StatusOK}
	conflict := []int{http.StatusConflict}
	badQuery := []int{http.StatusUnprocessableEntity}
	cursor := parameter("cursor", object{"type": "string"}, "next_cursor of the page before")
	limit := parameter("limit", object{"type": "integer", "minimum": 1, "maximum": MaxLimit, "default": client.DefaultPageSize}, "")
	whole := parameter("whole", object{"type": "boolean", "default": false}, fmt.Sprintf(
		"payloads, errors and stacks in whole, on pages of at most %d, and not the first %d bytes of each", MaxWhole, Preview))
	queue := parameter("queue", object{"type": "string"}, "")
	kind := parameter("kind", object{"type": "string"}, "")
	tenant := parameter("tenant", object{"type": "string"}, "")
	list := []object{
		parameter("status", object{"type": "string", "enum": message.Statuses()}, ""), kind, tenant,
		parameter("correlation_id", object{"type": "string"}, ""),
		parameter("order", object{"type": "string", "enum": []string{"asc", "desc"}, "default": "asc"}, "by id"),
		limit, whole, cursor,
		parameter("offset", object{"type": "integer", "minimum": 0, "maximum": MaxOffset, "default": 0}, "not beside a cursor"),
	}
	decision := func(request string) operation {
		return operation{request: request, response: "Message", success: fine, problems: conflict}
	}
	return map[string]operation{
		"enqueue": {
			request: "Enqueue", response: "Enqueued", success: []int{http.StatusCreated, http.StatusOK}, problems: conflict,
			parameters: []object{{
				"name": "Idempotency-Key", "in": "header", "schema": object{"type": "string"},
				"description": "the same as idempotency_key; quoted or bare",
			}},
			headers: object{
				"Location":             object{"schema": object{"type": "string"}},
				"Idempotency-Replayed": object{"schema": object{"const": "true"}},
			},
		},
		"listQueueMessages": {response: "Messages", success: fine, parameters: list},
		"getMessage":        {response: "Message", success: fine},
		"claim":             {request: "Claim", response: "Claimed", success: fine},
		"succeed":           decision("Succeed"),
		"fail":              decision("Fail"),
		"release":           decision("Release"),
		"extend":            decision("Extend"),
		"replay":            decision("Reason"),
		"resolve":           decision("Reason"),
		"cancel":            decision("Reason"),
		"settle":            {request: "Settle", response: "Settled", success: fine},
		"listAttempts":      {response: "Attempts", success: fine},
		"getDeadLetter":     {response: "DeadLetter", success: fine},
		"listMessages":      {response: "Messages", success: fine, problems: badQuery, parameters: append([]object{queue}, list...)},
		"findMessage":       {response: "Message", success: fine},
		"listDeadLetters": {response: "DeadLetters", success: fine, problems: badQuery, parameters: []object{
			queue, kind, tenant, parameter("error_class", object{"type": "string"}, ""),
			parameter("fingerprint", object{"type": "string"}, ""),
			parameter("decision", object{"type": "string", "enum": message.Decisions()}, ""),
			parameter("resolved", object{"type": "boolean", "default": false}, "those that are done with"), limit, whole, cursor,
		}},
		"purge":       {request: "Purge", response: "Purged", success: fine},
		"listQueues":  {response: "Queues", success: fine, problems: badQuery},
		"getQueue":    {response: "Queue", success: fine},
		"pause":       {request: "Pause", response: "Queue", success: fine},
		"resume":      {request: "Reason", response: "Queue", success: fine},
		"listWorkers": {response: "Workers", success: fine},
		"getHealth":   {response: "Health", success: fine},
		"listAudit": {response: "Audit", success: fine, problems: badQuery, parameters: []object{
			queue, parameter("message_id", object{"type": "integer", "minimum": 1}, ""), limit, cursor,
		}},
		"getMetrics": {media: "text/plain", success: fine, problems: []int{http.StatusNotFound}},
		"healthz":    {response: "Alive", success: fine},
		"readyz":     {response: "Alive", success: fine, problems: []int{http.StatusServiceUnavailable}},
		"openapi":    {media: "application/json", success: fine},
	}
})

func parameter(name string, schema object, about string) object {
	p := object{"name": name, "in": "query", "schema": schema}
	if about != "" {
		p["description"] = about
	}
	return p
}
