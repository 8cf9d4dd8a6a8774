//go:build unix

package torture

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// series are what a soak measures, in the order of a sample's values. slack is
// by how much a value may grow, beside a quarter, and still counts as flat.
var series = []struct {
	name, title, unit string
	scale, slack      float64 // of one unit
}{
	{"dead_tuples", "dead rows of messages and claims", "rows", 1, 5000},
	{"table_bytes", "tables messages and claims", "MB", 1 << 20, 8 << 20},
	{"index_bytes", "indexes of messages and claims", "MB", 1 << 20, 8 << 20},
	{"wait_p99_us", "p99 from enqueue to handler", "ms", 1000, 50_000},
	{"worker_rss", "memory of a worker that lives throughout", "MB", 1 << 20, 16 << 20},
	{"worker_goroutines", "its goroutines", "", 1, 20},
	{"reaper_rss", "memory of a reaper that lives throughout", "MB", 1 << 20, 16 << 20},
	{"reaper_goroutines", "its goroutines", "", 1, 20},
}

// Sample is one moment of a soak.
type Sample struct {
	At     time.Duration // since the beginning
	Values []float64     // by series
}

// Flatness compares the first third of a series with the last.
type Flatness struct {
	Title       string
	Unit        string
	First, Last float64 // medians
	Flat        bool
}

// flatness judges each series of the samples.
func flatness(samples []Sample) (all []Flatness) {
	third := max(1, len(samples)/3)
	for i, s := range series {
		median := func(part []Sample) float64 {
			values := make([]float64, len(part))
			for j := range part {
				values[j] = part[j].Values[i]
			}
			slices.Sort(values)
			return values[len(values)/2]
		}
		f := Flatness{Title: s.title, Unit: s.unit}
		if len(samples) > 0 {
			first, last := median(samples[:third]), median(samples[len(samples)-third:])
			f.First, f.Last, f.Flat = first/s.scale, last/s.scale, last <= first*1.25+s.slack
		}
		all = append(all, f)
	}
	return all
}

// writeSamples writes them as CSV, in the units of the database and of the
// system.
func writeSamples(w io.Writer, samples []Sample) error {
	out := csv.NewWriter(w)
	row := []string{"seconds"}
	for _, s := range series {
		row = append(row, s.name)
	}
	_ = out.Write(row) // the first error stays
	for _, sample := range samples {
		row = append(row[:0], strconv.FormatFloat(sample.At.Seconds(), 'f', 1, 64))
		for _, v := range sample.Values {
			row = append(row, strconv.FormatFloat(v, 'f', -1, 64))
		}
		_ = out.Write(row)
	}
	out.Flush()
	return out.Error()
}

// sampler takes samples of a run.
type sampler struct {
	r     *coordinator
	exact bool // the server has pgstattuple
}

const (
	hotSizes = `SELECT coalesce(sum(pg_table_size(c.oid)), 0)::bigint, coalesce(sum(pg_indexes_size(c.oid)), 0)::bigint
	FROM pg_class c WHERE c.oid IN ('styx.messages'::regclass, 'styx.claims'::regclass)`
	deadCounted = `SELECT coalesce(sum((pgstattuple(c.oid)).dead_tuple_count), 0)::bigint
	FROM pg_class c WHERE c.oid IN ('styx.messages'::regclass, 'styx.claims'::regclass)`
	deadEstimated = `SELECT coalesce(sum(n_dead_tup), 0)::bigint
	FROM pg_stat_user_tables WHERE schemaname = 'styx' AND relname IN ('messages', 'claims')`
)

// begin finds out how dead rows can be counted.
func (s *sampler) begin(ctx context.Context) {
	_, err := s.r.field.DB.ExecContext(ctx, "CREATE EXTENSION IF NOT EXISTS pgstattuple")
	s.exact = err == nil
}

// take takes one, or none while the database or one of the two processes is
// away.
func (s *sampler) take(ctx context.Context) (values []float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	dead := deadEstimated
	if s.exact {
		dead = deadCounted
	}
	var rows, table, index int64
	if err := s.r.field.DB.QueryRowContext(ctx, dead).Scan(&rows); err != nil {
		return nil, fmt.Errorf("count dead rows: %w", err)
	}
	if err := s.r.field.DB.QueryRowContext(ctx, hotSizes).Scan(&table, &index); err != nil {
		return nil, fmt.Errorf("measure tables: %w", err)
	}
	values = []float64{float64(rows), float64(table), float64(index)}
	for _, role := range []string{roleWorker, roleReaper} {
		spared := slices.DeleteFunc(s.r.field.crew.of(role), func(m *member) bool { return !m.part.Spared })
		if len(spared) == 0 {
			return nil, fmt.Errorf("there is no %s", role)
		}
		v, ok := readVitals(s.r.Dir, spared[0].part.Name)
		if !ok {
			return nil, fmt.Errorf("%s tells nothing", spared[0].part.Name)
		}
		if role == roleWorker {
			values = append(values, float64(v.WaitP99))
		}
		values = append(values, float64(v.RSS), float64(v.Goroutines))
	}
	return values, nil
}
