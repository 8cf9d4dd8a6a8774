package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"sync"
	"time"
)

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readBody returns the body as checked JSON, and what must be called when it
// is not needed any more.
func (h *Handler) readBody(w http.ResponseWriter, c *call) (body []byte, release func(), err error) {
	if c.r.ContentLength == 0 {
		return nil, func() {}, c.missingBody()
	}
	if c.r.ContentLength > h.cfg.BodyLimit {
		return nil, func() {}, tooLarge.problem(fmt.Sprintf("The body is larger than %d bytes.", h.cfg.BodyLimit))
	}
	buf, _ := bodies.Get().(*bytes.Buffer)
	large := false
	release = func() {
		if large {
			h.large.leave()
		}
		if buf.Cap() <= maxHeld {
			buf.Reset()
			bodies.Put(buf)
		}
	}
	control := http.NewResponseController(w)
	timed := control.SetReadDeadline(time.Now().Add(h.cfg.BodyTime)) == nil
	reader := http.MaxBytesReader(w, c.r.Body, h.cfg.BodyLimit)
	_, err = buf.ReadFrom(io.LimitReader(reader, smallBody))
	if err == nil && buf.Len() == smallBody {
		select {
		case h.large <- struct{}{}:
			large = true
			_, err = buf.ReadFrom(reader)
		case <-c.ctx.Done():
			return nil, release, errBusy
		}
	}
	if err != nil {
		return nil, release, bodyError(err) // the server reads on for a while, within the deadline
	}
	if timed {
		_ = control.SetReadDeadline(time.Time{}) // a claim may wait long
	}
	if len(bytes.TrimSpace(buf.Bytes())) == 0 {
		return nil, release, c.missingBody()
	}
	if err := checkMedia(c.r.Header); err != nil {
		return nil, release, err
	}
	if p := checkJSON(buf.Bytes()); p != nil {
		return nil, release, p
	}
	return buf.Bytes(), release, nil
}

func (c *call) missingBody() error {
	if c.route.body == requiredBody {
		return invalidJSON.problem("The body is empty.")
	}
	return nil
}

func bodyError(err error) error {
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return slowBody.problem("The body did not arrive in time.")
	}
	return invalidJSON.problem("The body ended too early.")
}

// checkMedia wants application/json as it stands.
func checkMedia(header http.Header) error {
	if coding := header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return wrongMedia.problem("A body must not be compressed.")
	}
	given := header.Get("Content-Type")
	if given == "application/json" {
		return nil
	}
	if media, params, err := mime.ParseMediaType(given); err == nil && media == "application/json" {
		if charset, ok := params["charset"]; !ok || charset == "utf-8" || charset == "UTF-8" {
			return nil
		}
	}
	return wrongMedia.problem("A body must be application/json in UTF-8.")
}
