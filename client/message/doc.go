// Package message holds the types that producers, workers and operators of
// Styx share: a [Message] and its [Status], the record of an [Attempt], a
// [DeadLetter], the options of an enqueue, and every error that the public
// packages return for a caller to recognise.
//
// It imports the standard library only, so that a program which merely names
// these types links nothing else.
//
// # States
//
//	enqueue ─► pending ─claim─► processing ─┬─ succeed ──────────────────► succeeded
//	             ▲                          ├─ fail, budget left ────────► pending
//	             │                          ├─ fail, permanent/exhausted ► dead ─ replay ─► pending
//	             └── reaper: timed out ─────┘
//
// [Transitions] is this picture as data.
package message
