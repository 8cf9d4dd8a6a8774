package postgres

import "context"

// Statements whose plans are tested.

func (s *Store) RescueStatement(limit int) string {
	return s.rescueFrom(`WITH RECURSIVE `+lostClaims+`, `+foundByClaims+`, `, limit)
}

func (s *Store) StatsStatement() string { return s.text(statsText) }

func (s *Store) EnsurePartition(ctx context.Context) error { return s.ensurePartition(ctx) }

// WaitedInVain reports that a claim has waited for its turn and gone without.
func (s *Store) WaitedInVain() bool { return s.turns.free() }

func (s *Store) ClaimLock(worker int64, queue string, limit int) int64 {
	return s.claimLock(worker, queue, limit)
}

var CheckServer = checkServer

const CalmSettings = calmSettings

// GaugeStatements returns the statements of Gauge that take none of their
// arguments from another, and the one that does with literals for EXECUTE.
func (s *Store) GaugeStatements(percentiles string) map[string][2]string {
	return map[string][2]string{
		"stats":       {s.text(statsText)},
		"workers":     {s.text(gaugeWorkersText)},
		"overdue":     {s.text(gaugeOverdueText)},
		"percentiles": {s.text(gaugePercentilesText), percentiles},
		"first seen":  {s.text(gaugeFirstSeenText)},
	}
}

const (
	GaugeClaims       = gaugeClaims
	GaugeFingerprints = gaugeFingerprints
)
