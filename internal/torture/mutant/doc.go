// Package mutant shows that the checker of the torture has teeth: it builds the
// program with faults seeded into the source, one of which the environment
// turns on, and demands that the checker finds each. The source itself is left
// alone: the compiler is given changed copies in place of some files. A change
// whose place is not found any more is an error.
package mutant
