// Package txn does a thing once, inside the transaction that does it: the claim of a key, the business writes and the
// stored result commit together or not at all.
//
// Run takes a key, calls a function with the transaction and stores what it returns. A duplicate is given the stored
// result; the function is not called. Consume does the same for messages, which have no result. Claim and its Complete
// are for callers who own the transaction themselves, RunSQL is Run for users of database/sql.
//
// An idempotent transaction costs no more round trips than a bare one: BEGIN travels with the claim, COMMIT with the
// completion. At READ COMMITTED the claim locks and looks, and its row is written once, finished, at the end; above it, or
// for claims of the caller's own, the row is written at once.
package txn
