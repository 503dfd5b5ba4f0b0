package main

import (
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

// policyFlags are the flags that make up a scope's policy.
type policyFlags struct {
	window, retryHorizon, lease, onExpiry, archive, sessionLength string
	generations, maxAttempts, maxResultBytes                      int32
	rotateRows                                                    int64
}

func (p *policyFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.window, "window", "", "how long a finished key is recognised, at least (`interval`); longer than the retry horizon")
	f.StringVar(&p.retryHorizon, "retry-horizon", "", "how long any caller may still retry (`interval`)")
	f.Int32Var(&p.generations, "generations", 0, "tables a window: more of them are dropped sooner after it, and each claim probes one more")
	f.Int64Var(&p.rotateRows, "rotate-rows", 0, "rotate also when the open generation holds this many rows; 0: by age only")
	f.StringVar(&p.lease, "lease", "", "length of a lease (`interval`), for claims that are leased")
	f.Int32Var(&p.maxAttempts, "max-attempts", 0, "attempts at a key before it is parked, for claims that are leased")
	f.StringVar(&p.onExpiry, "on-expiry", "", "what an expired lease leads to: `takeover or park`")
	f.Int32Var(&p.maxResultBytes, "max-result-bytes", 0, "a larger result is not stored, only its size")
	f.StringVar(&p.sessionLength, "session-length", "", "how long a user may sit over a page (`interval`): tokens last at least as long; without it the scope issues none")
	f.StringVar(&p.archive, "archive", "", "`keep or discard`: what becomes of a generation past its window")
}

// params returns what was given, and nil for what was not.
func (p *policyFlags) params(cmd *cobra.Command, name string) db.AlterScopeParams {
	return db.AlterScopeParams{
		Name:           name,
		DedupWindow:    given(cmd, "window", &p.window),
		RetryHorizon:   given(cmd, "retry-horizon", &p.retryHorizon),
		Generations:    given(cmd, "generations", &p.generations),
		Lease:          given(cmd, "lease", &p.lease),
		MaxAttempts:    given(cmd, "max-attempts", &p.maxAttempts),
		OnExpiry:       given(cmd, "on-expiry", &p.onExpiry),
		MaxResultBytes: given(cmd, "max-result-bytes", &p.maxResultBytes),
		RotateRows:     given(cmd, "rotate-rows", &p.rotateRows),
		Archive:        given(cmd, "archive", &p.archive),
		SessionLength:  given(cmd, "session-length", &p.sessionLength),
	}
}

// given returns the value of a flag, nil if the flag was not given.
func given[T any](cmd *cobra.Command, flag string, value *T) *T {
	if cmd.Flags().Changed(flag) {
		return value
	}
	return nil
}
