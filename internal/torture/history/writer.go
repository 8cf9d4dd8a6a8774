package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// extension of the files.
const extension = ".jsonl"

// Writer appends events to the file of one process. It is safe for concurrent
// use: an event is one write to a file that is open for appending.
type Writer struct{ f *os.File }

// Create opens the file of the named process in a folder.
func Create(dir, process string) (*Writer, error) {
	f, err := os.OpenFile(filepath.Join(dir, process+extension), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open history of %s: %w", process, err)
	}
	return &Writer{f: f}, nil
}

// Add writes the event, with the time of now. A history that cannot be written
// proves nothing, so it panics then.
func (w *Writer) Add(e Event) {
	e.At = time.Now().UnixMicro()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = w.f.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("write history: %v", err))
	}
}

// Close closes the file.
func (w *Writer) Close() error { return w.f.Close() }
