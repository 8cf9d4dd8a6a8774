package httpapi

// CountRoutes is the number of operations.
func CountRoutes() int { return len(routes()) }

// Waiting is the number of claims that wait, Working that of requests at work.
func (h *Handler) Waiting() int { return len(h.waits) }

// Working is the number of requests at work.
func (h *Handler) Working() int { return len(h.requests) }

// Occupy takes all places of requests until the function returned is called.
func (h *Handler) Occupy() func() {
	n := cap(h.requests)
	for range n {
		h.requests <- struct{}{}
	}
	return func() {
		for range n {
			h.requests.leave()
		}
	}
}
