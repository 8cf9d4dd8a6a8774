package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
)

const (
	progressWidth = 30
	progressEvery = 100 * time.Millisecond
)

// progress shows a bar on a terminal, and nothing elsewhere.
type progress struct {
	out io.Writer // nil: nobody looks
}

func newProgress(stderr io.Writer) *progress {
	f, ok := stderr.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) || os.Getenv("TERM") == "dumb" {
		return &progress{}
	}
	return &progress{out: f}
}

// say shows a line until the next one.
func (p *progress) say(text string) {
	if p.out != nil {
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", text)
	}
}

// clear removes the line.
func (p *progress) clear() { p.say("") }

// watch shows a bar until stop is called; a second call of stop does nothing.
// done must be safe for concurrent use.
func (p *progress) watch(title string, total int, done func() int64) (stop func()) {
	if p.out == nil {
		return func() {}
	}
	var shown sync.WaitGroup
	stopped := make(chan struct{})
	shown.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			p.say(bar(title, int(done()), total))
			select {
			case <-stopped:
				p.clear()
				return
			case <-tick.C:
			}
		}
	})
	return sync.OnceFunc(func() {
		close(stopped)
		shown.Wait()
	})
}

// bar is one line, such as "drain  [######      ]  42 % of 100000".
func bar(title string, done, total int) string {
	done = min(done, total)
	full := progressWidth * done / max(total, 1)
	return fmt.Sprintf("%s  [%s%s] %3d %% of %d", title,
		strings.Repeat("#", full), strings.Repeat(" ", progressWidth-full), 100*done/max(total, 1), total)
}
