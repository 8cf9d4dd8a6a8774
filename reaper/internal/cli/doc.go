// Package cli is the command line of the reaper. It uses the public packages
// only, as any other program could.
//
// Data goes to stdout, everything else to stderr, and nothing ever asks a
// question: what needs a confirmation needs a flag.
package cli
