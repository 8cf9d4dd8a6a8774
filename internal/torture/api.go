//go:build unix

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/styxmq/styx/client/message"
)

// api calls a daemon over HTTP. It is safe for concurrent use.
type api struct {
	base string
	http *http.Client
}

func newAPI(address string) *api {
	return &api{base: "http://" + address, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
}

// refusal is an answer that is no success.
type refusal struct {
	Status  int    `json:"status"`
	Type    string `json:"type"`
	Detail  string `json:"detail"`
	Message int64  `json:"message_id"`
	Index   int    `json:"index"`
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.Status, r.Type, r.Detail) }

// Names of problems.
const (
	problemKeyHeld   = "urn:styx:problem:idempotency-key-held"
	problemLeaseLost = "urn:styx:problem:lease-lost"
	problemState     = "urn:styx:problem:conflict-state"
)

// wrong reports that the daemon took a call for a mistake of its caller.
func (r *refusal) wrong() bool {
	switch r.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	}
	return r.Status < http.StatusInternalServerError
}

// remoteMessage is a message as an answer shows it.
type remoteMessage struct {
	ID          int64  `json:"id"`
	Payload     string `json:"payload"`
	Attempt     int    `json:"attempt"`
	LeaseToken  int64  `json:"lease_token"`
	ReplayCount int    `json:"replay_count"`
}

// post calls, and reads the answer into out. The error is a *refusal when
// there is an answer; after any other nobody knows what was done. With a key
// the transport may repeat the call by itself.
func (a *api) post(ctx context.Context, path, key string, body, out any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	answer, err := a.http.Do(r)
	if err != nil {
		return fmt.Errorf("call %s: %w", path, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err = io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", path, err)
	}
	if answer.StatusCode < http.StatusMultipleChoices {
		return json.Unmarshal(text, out)
	}
	p := &refusal{}
	if err := json.Unmarshal(text, p); err != nil || p.Status != answer.StatusCode {
		return fmt.Errorf("call %s: %s without a problem", path, answer.Status)
	}
	if p.Type == problemKeyHeld && p.Message != 0 {
		return &message.DuplicateError{ID: p.Message, Index: p.Index}
	}
	return p
}
