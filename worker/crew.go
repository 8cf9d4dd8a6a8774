package worker

import "sync"

// crew runs tasks, in their order, on goroutines that it keeps, since their
// stacks have grown to what handlers need.
//
// While tasks wait, one goroutine is on its way to them and no more: it sends
// for the next one before it begins its own. So handlers that block never hold
// up a task, and short ones follow each other without a change of goroutines.
type crew struct {
	work func(*task) (next *task)

	mu     sync.Mutex
	tasks  []*task // waiting, from head on
	head   int
	idle   []chan struct{} // goroutines that wait, the last one warmest
	coming bool            // one was sent for and has not taken a task yet
	closed bool
}

// add puts tasks behind those that wait.
func (c *crew) add(tasks []*task) {
	if len(tasks) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head > 0 && len(c.tasks)+len(tasks) > cap(c.tasks) {
		n := copy(c.tasks, c.tasks[c.head:])
		clear(c.tasks[n:])
		c.tasks, c.head = c.tasks[:n], 0
	}
	c.tasks = append(c.tasks, tasks...)
	c.send()
}

// send sends for a goroutine unless one is coming. c.mu is held.
func (c *crew) send() {
	if c.coming {
		return
	}
	c.coming = true
	if n := len(c.idle); n > 0 {
		wake := c.idle[n-1]
		c.idle = c.idle[:n-1]
		wake <- struct{}{}
		return
	}
	go c.run()
}

func (c *crew) run() {
	wake := make(chan struct{}, 1)
	for sent := true; ; sent = true {
		for t := c.take(sent, wake); t != nil; t = c.take(sent, wake) {
			sent = false
			for t != nil {
				t = c.work(t) // a Goexit ends this goroutine, which nobody waits for
			}
		}
		if _, ok := <-wake; !ok {
			return
		}
	}
}

// take returns the next task. When there is none, the goroutine counts as
// idle and must wait.
func (c *crew) take(sent bool, wake chan struct{}) *task {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sent {
		c.coming = false
	}
	if c.head == len(c.tasks) {
		c.tasks, c.head = c.tasks[:0], 0
		if c.closed {
			close(wake)
		} else {
			c.idle = append(c.idle, wake)
		}
		return nil
	}
	t := c.tasks[c.head]
	c.tasks[c.head] = nil
	c.head++
	if c.head < len(c.tasks) {
		c.send()
	}
	return t
}

// close ends the goroutines, those that work as soon as nothing is left.
func (c *crew) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, wake := range c.idle {
		close(wake)
	}
	c.idle = nil
}
