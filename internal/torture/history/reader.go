package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Read returns the events of every file in a folder, by time. A last line that
// was cut short is left out: what it would have told was not relied on yet.
func Read(dir string) ([]Event, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+extension))
	if err != nil {
		return nil, fmt.Errorf("look for histories: %w", err)
	}
	var all []Event
	for _, name := range names {
		if all, err = readFile(all, name); err != nil {
			return nil, fmt.Errorf("read history %s: %w", filepath.Base(name), err)
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	return all, nil
}

func readFile(all []Event, name string) ([]Event, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	process := strings.TrimSuffix(filepath.Base(name), extension)
	for r, n := bufio.NewReaderSize(f, 1<<20), 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		e := Event{Process: process}
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, e)
	}
}
