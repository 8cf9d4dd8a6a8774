// Package check judges a torture run by its histories and by what the database
// holds in the end, in the manner of Jepsen's total-queue but exact by id: what
// was acknowledged must be there, once, and finished; what was never attempted
// must not; and of each attempt it must be known why the next one could begin.
package check
