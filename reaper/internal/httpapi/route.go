package httpapi

import (
	"net/http"
)

// bodyRule says whether a request has a body.
type bodyRule uint8

const (
	noBody bodyRule = iota
	optionalBody
	requiredBody
)

// route is one operation.
type route struct {
	method, path string
	// roles are those that may call it, beside admin; anybody needs no token.
	roles roles
	body  bodyRule
	serve func(h *Handler, c *call) (*reply, error)
	// name and about are for the description.
	name, about string
}

// public routes need no token.
func (r *route) public() bool { return r.roles == anybody }

const (
	pathMessages = "/queues/{queue}/messages"
	pathMessage  = pathMessages + "/{id}"
)

// routes is the table of operations and of who may call them.
func routes() []*route {
	const readers = viewer | operator
	return []*route{
		{http.MethodPost, pathMessages, producer, requiredBody, (*Handler).enqueue, "enqueue", "Enqueue a message, or many: all of them or none"},
		{http.MethodGet, pathMessages, readers, noBody, (*Handler).listQueue, "listQueueMessages", "List messages of a queue"},
		{http.MethodGet, pathMessage, producer | worker | readers, noBody, (*Handler).get, "getMessage", "Show a message; a producer sees neither payload nor error"},
		{http.MethodPost, "/queues/{queue}/claim", worker, optionalBody, (*Handler).claim, "claim", "Claim the next messages, waiting for them if asked to"},
		{http.MethodPost, pathMessage + "/succeed", worker, optionalBody, (*Handler).succeed, "succeed", "Report success"},
		{http.MethodPost, pathMessage + "/fail", worker, optionalBody, (*Handler).fail, "fail", "Report failure: the message is retried, or dead"},
		{http.MethodPost, pathMessage + "/release", worker, optionalBody, (*Handler).release, "release", "Give a message back, uncharged"},
		{http.MethodPost, pathMessage + "/extend", worker, optionalBody, (*Handler).extend, "extend", "Move the end of a lease"},
		{http.MethodPost, "/queues/{queue}/settle", worker, requiredBody, (*Handler).settle, "settle", "Report many outcomes at once"},
		{http.MethodPost, pathMessage + "/replay", operator, optionalBody, (*Handler).replay, "replay", "Put a dead message back"},
		{http.MethodPost, pathMessage + "/resolve", operator, optionalBody, (*Handler).resolve, "resolve", "Close a dead letter without running it"},
		{http.MethodPost, pathMessage + "/cancel", operator, optionalBody, (*Handler).cancel, "cancel", "End a pending message"},
		{http.MethodGet, pathMessage + "/attempts", readers, noBody, (*Handler).attempts, "listAttempts", "List attempts that did not succeed"},
		{http.MethodGet, pathMessage + "/dead-letter", readers, noBody, (*Handler).letter, "getDeadLetter", "Show the newest dead letter of a message, with its attempts"},
		{http.MethodGet, "/messages", readers, noBody, (*Handler).list, "listMessages", "List messages of all queues"},
		{http.MethodGet, "/messages/{id}", readers, noBody, (*Handler).find, "findMessage", "Show a message, whatever its queue"},
		{http.MethodGet, "/dead-letters", readers, noBody, (*Handler).letters, "listDeadLetters", "List dead letters"},
		{http.MethodPost, "/dead-letters/purge", admin, requiredBody, (*Handler).purge, "purge", "Delete dead letters for good"},
		{http.MethodGet, "/queues", readers, noBody, (*Handler).queues, "listQueues", "List queues with their depth and age"},
		{http.MethodGet, "/queues/{queue}", readers, noBody, (*Handler).queue, "getQueue", "Show a queue"},
		{http.MethodPost, "/queues/{queue}/pause", operator, optionalBody, (*Handler).pause, "pause", "Stop claims from a queue"},
		{http.MethodPost, "/queues/{queue}/resume", operator, optionalBody, (*Handler).resume, "resume", "End a pause"},
		{http.MethodGet, "/workers", readers, noBody, (*Handler).workers, "listWorkers", "List workers that live"},
		{http.MethodGet, "/health", operator, noBody, (*Handler).health, "getHealth", "Show what a diagnosis needs"},
		{http.MethodGet, "/audit", operator, noBody, (*Handler).audit, "listAudit", "List what operators did"},
		{http.MethodGet, "/metrics", readers, noBody, (*Handler).metrics, "getMetrics", "Show metrics"},
		{http.MethodGet, "/healthz", anybody, noBody, (*Handler).healthz, "healthz", "Tell that the server serves"},
		{http.MethodGet, "/readyz", anybody, noBody, (*Handler).readyz, "readyz", "Tell whether queues can be worked"},
		{http.MethodGet, "/openapi.json", anybody, noBody, (*Handler).openapi, "openapi", "Describe this interface"},
	}
}
