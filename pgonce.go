package pgonce

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Outcome is what became of a claim.
type Outcome string

// Outcomes of a claim. Expected outcomes are values, never errors of the database.
const (
	Fresh      Outcome = "fresh"       // the caller holds the claim: do the work
	Replay     Outcome = "replay"      // done before: the stored result is attached
	InProgress Outcome = "in_progress" // another caller holds the claim
	Mismatch   Outcome = "mismatch"    // the key was used with another fingerprint
	Failed     Outcome = "failed"      // a stored final refusal, replayed
	Parked     Outcome = "parked"      // needs a human: see the view once.in_flight
)

// MaxKeyLen is the length of the longest key, and of the longest subject, in bytes.
const MaxKeyLen = 255

// Key names one operation: a key inside a scope, and the subject (tenant, user) that it belongs to where the scope has
// subjects. Equal keys of different subjects are different operations.
type Key struct {
	Scope   string
	Subject string
	Key     string
}

// String returns scope/key or scope/subject/key, for messages.
func (k Key) String() string {
	if k.Subject == "" {
		return k.Scope + "/" + k.Key
	}
	return k.Scope + "/" + k.Subject + "/" + k.Key
}

// Validate returns an *InvalidError if the key or the subject cannot be stored, nil otherwise. Whether the scope exists,
// and whether it requires a subject, only the database knows.
func (k Key) Validate() error {
	if k.Scope == "" {
		return &InvalidError{CodeUnknownScope, "scope is empty"}
	}
	if k.Key == "" {
		return &InvalidError{CodeInvalidKey, "key is empty"}
	}
	if problem := badText(k.Key); problem != "" {
		return &InvalidError{CodeInvalidKey, "key " + problem}
	}
	if problem := badText(k.Subject); problem != "" {
		return &InvalidError{CodeInvalidSubject, "subject " + problem}
	}
	if problem := badText(k.Scope); problem != "" {
		return &InvalidError{CodeUnknownScope, "scope " + problem}
	}
	return nil
}

func badText(s string) string {
	switch {
	case len(s) > MaxKeyLen:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(s), MaxKeyLen)
	case strings.IndexByte(s, 0) >= 0:
		return "contains a NUL byte"
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	}
	return ""
}
