package pgonce

// Outcome is what became of a claim.
type Outcome string

// Outcomes of a claim. Expected outcomes are values, never errors of the database.
const (
	Fresh      Outcome = "fresh"       // the caller holds the claim: do the work
	Replay     Outcome = "replay"      // done before: the stored result is attached
	InProgress Outcome = "in_progress" // another caller holds the claim
	Mismatch   Outcome = "mismatch"    // the key was used with another fingerprint
	Failed     Outcome = "failed"      // a stored final refusal, replayed
	Parked     Outcome = "parked"      // needs a human: see the compensation queue
)

// MaxKeyLen is the longest key, subject included separately, in bytes.
const MaxKeyLen = 255

// Key names one operation: a key inside a scope, and the subject (tenant, user) it belongs to where the scope
// has subjects.
type Key struct {
	Scope   string
	Subject string
	Key     string
}
