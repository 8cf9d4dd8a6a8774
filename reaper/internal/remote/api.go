package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/styxmq/styx/client/message"
)

const (
	// requestTimeout limits one request.
	requestTimeout = 60 * time.Second
	// maxAnswer is the largest answer that is read: a page of the largest
	// payloads.
	maxAnswer = 256 << 20
)

// API is the HTTP API of one server. It is safe for concurrent use.
type API struct {
	base, token string
	client      *http.Client
}

// Dial returns the API at an address, such as https://styx.internal/styx. It
// connects with the first call. An address that is none, or holds a user or
// password, is a *message.ValidationError of the field api-url.
func Dial(address, token string) (*API, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, &message.ValidationError{
			Field: "api-url", Code: message.CodeInvalid,
			Message: "api-url must be an address such as http://127.0.0.1:8080, without user, password and query.",
		}
	}
	return &API{
		base: strings.TrimRight(address, "/"), token: token,
		client: &http.Client{
			Timeout: requestTimeout,
			// A token must not follow to another place.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Within returns the API that a handler serves, without a network.
func Within(h http.Handler) *API {
	return &API{base: "http://localhost", client: &http.Client{Transport: within{h}}}
}

// Get asks for a path, whose names are escaped already, and decodes the answer
// into out unless that is nil.
func (a *API) Get(ctx context.Context, path string, query url.Values, out any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return a.call(ctx, http.MethodGet, path, nil, out)
}

// Post sends body as JSON. See [API.Get].
func (a *API) Post(ctx context.Context, path string, body, out any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode a request: %w", err)
	}
	return a.call(ctx, http.MethodPost, path, text, out)
}

func (a *API) call(ctx context.Context, method, path string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the address is known, and stands in the target
		}
		return &UnavailableError{err}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return &UnavailableError{err}
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return problemOf(resp, text)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s %s: the answer is not that of this API: %w", method, path, err)
	}
	return nil
}

// Segment escapes a name for a path. A name of dots would be a step in it.
func Segment(name string) string {
	escaped := url.PathEscape(name)
	if strings.Trim(escaped, ".") == "" {
		return strings.ReplaceAll(escaped, ".", "%2E")
	}
	return escaped
}
