package telemetry

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	// Overflow is the value of a label whose number of values has reached
	// its limit.
	Overflow = "other"

	// The largest numbers of values of labels which the application makes
	// up.
	maxQueues  = 200
	maxKinds   = 200
	maxTenants = 200
	maxClasses = 100

	// maxSets bounds the combinations of one family. An SDK has a limit of
	// its own, 2,000 for each instrument, past which all labels are lost.
	maxSets = 1500

	// maxLabels is the largest number of labels that vary in one family.
	maxLabels = 4
)

// values of the labels of a family, in its order; empty ones are left out.
type values [maxLabels]string

// set is a combination of labels, ready to be handed over without allocation.
type set struct {
	attrs  attribute.Set
	add    []metric.AddOption
	record []metric.RecordOption
}

// label is one that varies.
type label struct {
	key attribute.Key
	// limit is the largest number of values, 0 none: there are few by
	// themselves.
	limit int
}

// family makes the label sets of instruments that have the same labels, and
// bounds their number. It is safe for concurrent use.
type family struct {
	labels []label
	fixed  []attribute.KeyValue

	mu   sync.RWMutex
	sets map[values]*set
	seen [maxLabels]map[string]struct{}
}

func newFamily(fixed []attribute.KeyValue, labels ...label) *family {
	f := &family{labels: labels, fixed: fixed, sets: map[values]*set{}}
	for i, l := range labels {
		if l.limit > 0 {
			f.seen[i] = map[string]struct{}{}
		}
	}
	return f
}

// of returns the set of these values.
func (f *family) of(v values) *set {
	f.mu.RLock()
	s := f.sets[v]
	f.mu.RUnlock()
	if s != nil {
		return s
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v = f.bounded(v)
	if s = f.sets[v]; s != nil {
		return s
	}
	if len(f.sets) >= maxSets {
		for i, l := range f.labels {
			if l.limit > 0 && v[i] != "" {
				v[i] = Overflow
			}
		}
		if s = f.sets[v]; s != nil {
			return s
		}
	}
	s = f.build(v)
	f.sets[v] = s
	return s
}

// bounded replaces values past their label's limit.
func (f *family) bounded(v values) values {
	for i := range f.labels {
		v[i] = f.admit(i, v[i])
	}
	return v
}

// bound returns the value that stands for v in the label with this index.
func (f *family) bound(i int, v string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.admit(i, v)
}

func (f *family) admit(i int, v string) string {
	limit, seen := f.labels[i].limit, f.seen[i]
	if limit == 0 || v == "" {
		return v
	}
	if _, known := seen[v]; known {
		return v
	}
	if len(seen) >= limit {
		return Overflow
	}
	seen[v] = struct{}{}
	return v
}

func (f *family) build(v values) *set {
	attrs := make([]attribute.KeyValue, 0, len(f.fixed)+len(f.labels))
	attrs = append(attrs, f.fixed...)
	for i, l := range f.labels {
		if v[i] != "" {
			attrs = append(attrs, l.key.String(v[i]))
		}
	}
	s := attribute.NewSet(attrs...)
	option := metric.WithAttributeSet(s)
	return &set{attrs: s, add: []metric.AddOption{option}, record: []metric.RecordOption{option}}
}

// The labels that vary, with their limits.
func byQueue() label  { return label{labelQueue, maxQueues} }
func byKind() label   { return label{labelKind, maxKinds} }
func byTenant() label { return label{labelTenant, maxTenants} }
func byClass() label  { return label{labelErrorClass, maxClasses} }

// operation is the family of the semantic metrics for one operation: its
// labels are the queue and the type of error.
func operation(name, kind string) *family {
	fixed := []attribute.KeyValue{KeySystem.String(System), KeyOperation.String(name)}
	if kind != "" {
		fixed = append(fixed, KeyOperationType.String(kind))
	}
	return newFamily(fixed, label{KeyDestination, maxQueues}, label{KeyErrorType, maxClasses})
}
