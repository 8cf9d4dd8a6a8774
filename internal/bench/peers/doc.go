// Command peers measures Styx beside River, asynq and a loop of bare SQL, on
// one machine, in one run, in turn:
//
//	go run . [-quick] [-systems styx,river] [-scenarios drain,steady] [-rounds 5] [-messages 200000]
//
// It starts a PostgreSQL server and, for asynq, a Redis server of its own, and
// ends both. PostgreSQL gets its shared memory in huge pages where this user
// may let the machine keep some; their number is put back at the end, but not
// by a program that is killed (-huge-pages=false leaves it alone). Each
// measured program is a child process, this binary again, so that processor
// time and memory are its own. A system is used through its public interface
// only, with settings that any of its users can make. Every message carries a
// number of its own, and every run ends with a check that each has been worked
// as often as it should have been, by what the handlers saw and by what the
// database holds; a run that fails it is an error, not a figure.
//
// Markdown goes to standard output, progress to standard error; -json writes
// all single figures into a file. The exit code is 1 when a run has failed; a
// missed target is no failure. Processor time and memory are read from /proc,
// so it runs on Linux.
package main
