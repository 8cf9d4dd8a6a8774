// Package layout holds nothing but a test: which package may import which,
// what a user's program must not be made to link, and what may lie at the top
// of the repository.
package layout
