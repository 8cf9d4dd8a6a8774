// Package httpapi serves the queues over HTTP: every language can enqueue,
// claim, settle, inspect and replay.
//
// It knows of the queues what the package client shows, and no more. A request
// goes through these gates, in this order: the Host header, the route, the
// origin of a browser, the token, the number of requests at work, the body,
// the values. Whatever refuses it answers with a problem of RFC 9457; the
// table in problem.go turns errors into them, the one in route.go says which
// role may call what.
package httpapi
