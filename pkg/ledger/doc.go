// Package ledger keeps the Orphan records: it writes what the engine knows of a job before that is needed, reads it back
// after a restart, and forgets it when its time is over.
package ledger
