// Package torture proves the promise of the queue by breaking everything
// around it: it starts producers, workers, reapers and an operator as processes
// on a database of its own, inflicts faults on them, lets the queues drain, and
// has package check judge what each process noted against what the database
// holds.
//
// [Run] is the coordinator. The other processes are the same program, started
// with [Variable] in their environment; main calls [RunRole] then.
//
// A fault is one type in one file; see [Fault].
package torture
