package httpapi

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object of the description.
type object = map[string]any

// description is the OpenAPI document of the routes under the prefix.
func description(prefix string) []byte {
	paths := object{}
	for _, r := range routes() {
		path, _ := paths[r.path].(object)
		if path == nil {
			path = object{}
			if params := pathParameters(r.path); len(params) > 0 {
				path["parameters"] = params
			}
			paths[r.path] = path
		}
		path[strings.ToLower(r.method)] = describeRoute(r)
	}
	text, _ := json.Marshal(object{ // maps, texts and numbers only
		"openapi": "3.1.0",
		"info": object{
			"title":   "Styx",
			"version": "1",
			"description": "Queues of messages. Times are RFC 3339 in UTC, durations are seconds. " +
				"Errors are problems of RFC 9457. Ignore fields that you do not know: there may be more of them later.",
		},
		"servers":    []object{{"url": cmp.Or(prefix, "/")}},
		"security":   []object{{"bearer": []string{}}},
		"paths":      paths,
		"components": object{"schemas": schemas(), "securitySchemes": object{"bearer": object{"type": "http", "scheme": "bearer"}}},
	})
	return append(text, '\n')
}

func describeRoute(r *route) object {
	d := operations()[r.name]
	about := r.about + "."
	if !r.public() {
		about += " For " + strings.Join(r.roleNames(), ", ") + "."
	}
	op := object{"operationId": r.name, "summary": r.about, "description": about, "responses": describeResponses(r, d)}
	if r.public() {
		op["security"] = []object{}
	}
	if len(d.parameters) > 0 {
		op["parameters"] = d.parameters
	}
	if d.request != "" {
		op["requestBody"] = object{"required": r.body == requiredBody, "content": content("application/json", ref(d.request))}
	}
	return op
}

// roleNames are those of the roles that may call.
func (r *route) roleNames() []string {
	var names []string
	for i, name := range Roles() {
		if (r.roles|admin)&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

func describeResponses(r *route, d operation) object {
	responses := object{}
	for _, status := range d.success {
		answer := object{"description": http.StatusText(status)}
		switch {
		case d.response != "":
			answer["content"] = content("application/json", ref(d.response))
		case d.media != "":
			answer["content"] = content(d.media, object{})
		}
		if d.headers != nil {
			answer["headers"] = d.headers
		}
		responses[strconv.Itoa(status)] = answer
	}
	for _, status := range r.problems(d) {
		answer := object{"description": http.StatusText(status), "content": content("application/problem+json", ref("Problem"))}
		switch status {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			answer["headers"] = object{"Retry-After": object{"required": true, "schema": object{"type": "integer"}}}
		case http.StatusUnauthorized:
			answer["headers"] = object{"WWW-Authenticate": object{"required": true, "schema": object{"type": "string"}}}
		}
		responses[strconv.Itoa(status)] = answer
	}
	return responses
}

// problems are the statuses with which the route may refuse.
func (r *route) problems(d operation) []int {
	list := []int{http.StatusForbidden, http.StatusMisdirectedRequest, http.StatusInternalServerError}
	if r.public() {
		list = list[1:]
	} else {
		list = append(list, http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	}
	if strings.Contains(r.path, "{queue}") {
		list = append(list, http.StatusUnprocessableEntity)
	}
	if strings.Contains(r.path, "{id}") {
		list = append(list, http.StatusNotFound)
	}
	if r.body != noBody {
		list = append(list, http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity)
	}
	list = append(list, d.problems...)
	slices.Sort(list)
	return slices.Compact(list)
}

func content(media string, schema object) object {
	return object{media: object{"schema": schema}}
}

func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }

func pathParameters(path string) []object {
	var list []object
	if strings.Contains(path, "{queue}") {
		list = append(list, object{
			"name": "queue", "in": "path", "required": true, "schema": object{"type": "string"},
			"description": "1 to 128 bytes of UTF-8 without control characters, escaped",
		})
	}
	if strings.Contains(path, "{id}") {
		list = append(list, object{
			"name": "id", "in": "path", "required": true, "schema": object{"type": "integer", "minimum": 1},
		})
	}
	return list
}
