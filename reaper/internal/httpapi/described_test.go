package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/reaper/internal/httpapi"
)

// contract is the description as the server gives it.
var contract = sync.OnceValues(func() (*openapi3.T, error) {
	h, err := httpapi.New(httpapi.Config{Open: true})
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	return openapi3.NewLoader().LoadFromData(w.Body.Bytes())
})

var router = sync.OnceValues(func() (routers.Router, error) {
	doc, err := contract()
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(doc)
})

var (
	seenLock sync.Mutex
	seen     = map[string]bool{}
)

// described fails when an answer is not as the description says.
func described(t *testing.T, r *http.Request, a answer) {
	t.Helper()
	rt, err := router()
	require.NoError(t, err)
	lookup := &http.Request{Method: r.Method, URL: &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}, Header: http.Header{}}
	route, params, err := rt.FindRoute(lookup)
	if err != nil || a.status == http.StatusMethodNotAllowed || strings.HasSuffix(r.URL.Path, "/") || strings.Contains(r.URL.EscapedPath(), "//") {
		return // no route of ours
	}
	seenLock.Lock()
	seen[fmt.Sprintf("%s %d", route.Operation.OperationID, a.status)] = true
	seenLock.Unlock()
	err = hold(lookup, route, params, a)
	require.NoError(t, err, "%s %s: %d %s", r.Method, r.URL, a.status, a.text)
}

// hold compares an answer with the description.
func hold(r *http.Request, route *routers.Route, params map[string]string, a answer) error {
	return openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader([]byte(a.text))),
		Options: &openapi3filter.Options{
			IncludeResponseStatus:   true,
			SchemaValidationOptions: []openapi3.SchemaValidationOption{openapi3.EnableJSONSchema2020()},
		},
	})
}

func TestDescriptionIsHeldAgainstAnswers(t *testing.T) {
	t.Parallel()
	rt, err := router()
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/queues", nil)
	route, params, err := rt.FindRoute(r)
	require.NoError(t, err)
	header := http.Header{"Content-Type": {"application/json"}}
	const good = `{"queues":[{"queue":"q","ready":0,"scheduled":0,"processing":0,"dead":0,"oldest_ready":0.5,"paused":false,"pause":null}],"count":1}`
	require.NoError(t, hold(r, route, params, answer{200, header, good}))
	for _, bad := range []string{
		strings.Replace(good, `"q"`, `null`, 1), strings.Replace(good, `"ready":0,`, ``, 1),
		strings.Replace(good, `"ready":0`, `"ready":0.5`, 1), strings.Replace(good, `"count"`, `"x":1,"count"`, 1), `[]`,
	} {
		require.Error(t, hold(r, route, params, answer{200, header, bad}), bad)
	}
	require.Error(t, hold(r, route, params, answer{201, header, good}))
	require.Error(t, hold(r, route, params, answer{200, http.Header{"Content-Type": {"text/plain"}}, good}))
	require.Error(t, hold(r, route, params, answer{503, http.Header{"Content-Type": {"application/problem+json"}}, `{}`}))
}

func TestDescriptionIsValid(t *testing.T) {
	t.Parallel()
	doc, err := contract()
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	require.Equal(t, "3.1.0", doc.OpenAPI)
}
