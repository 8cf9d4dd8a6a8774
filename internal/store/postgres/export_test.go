package postgres

import "context"

// Statements whose plans are tested.

func (s *Store) RescueStatement(limit int) string {
	return s.rescueFrom(`WITH RECURSIVE `+lostClaims+`, `+foundByClaims+`, `, limit)
}

func (s *Store) StatsStatement() string { return s.text(statsText) }

func (s *Store) EnsurePartition(ctx context.Context) error { return s.ensurePartition(ctx) }

var CheckServer = checkServer

const CalmSettings = calmSettings
