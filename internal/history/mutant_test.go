package history

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mutants each switch off one safeguard. Every one of them must be found.
var mutants = map[string]struct {
	edits []edit
	long  bool // needs claims that stall for long
	slow  bool // may take minutes, too long for the default suite: runs with -slow only
}{
	"NoKeyLock": {edits: []edit{
		{"_compile_claim", "IF NOT pg_try_advisory_xact_lock(v_lock) THEN", "IF false THEN"},
	}},
	"NoFenceInInsert": {long: true, slow: true, edits: []edit{
		{"_compile_claim", "WHERE pg_sequence_last_value({fence}) = {epoch} AND {unknown}", "WHERE {unknown}"},
	}},
	"FenceBeforeLock": {slow: true, edits: []edit{ // a deferred claim: the others have the fence in their insert
		{"_compile_claim", "IF v_lock IS NULL OR pg_sequence_last_value({fence}) IS DISTINCT FROM {epoch} THEN", "IF v_lock IS NULL THEN"},
		{"_compile_claim", "    IF NOT pg_try_advisory_xact_lock(v_lock) THEN", `
    IF pg_sequence_last_value({fence}) IS DISTINCT FROM {epoch} THEN
        RETURN NULL;
    END IF;
    IF NOT pg_try_advisory_xact_lock(v_lock) THEN`},
	}},
	"NoTombstones": {edits: []edit{
		{"_compile_claim", "FOREACH v_leaf IN ARRAY p_sealed LOOP", "FOREACH v_leaf IN ARRAY '{}'::integer[] LOOP"},
	}},
	"DrainedAtOnce": {slow: true, edits: []edit{
		{"_step_drain", "v_waits := once._writers(once._leaf(p_scope.name, v_generation.generation), v_generation.waits_for);", "v_waits := '{}';"},
	}},
	"CarriedWithoutLock": {slow: true, edits: []edit{
		{"_carry_over", "IF NOT pg_try_advisory_xact_lock(hashtextextended(v_row.key, hashtextextended(v_row.subject, v_seed))) THEN", "IF false THEN"},
	}},
	"TakenOverWhileLeased": {slow: true, edits: []edit{
		{"claim_leased", " AND v_result.retry_after <= interval '0'", ""},
		{"_compile_takeover", " OR (v_row.lease_until <= clock_timestamp()) IS NOT TRUE", ""},
		{"_compile_takeover", "AND lease_until <= clock_timestamp() ", ""},
	}},
	"ParkedWhileLeased": {slow: true, edits: []edit{
		{"_carry_over", "coalesce(lease_until <= clock_timestamp(), true)", "true"},
	}},
	"SettledByAnyClaim": {slow: true, edits: []edit{
		{"_compile_settle", "AND claim_id = p_claim_id AND attempt = p_attempt", ""},
	}},
}

// A harness that finds nothing proves nothing: it must find every safeguard that is switched off.
func TestMutants(t *testing.T) {
	t.Parallel()
	for name, mutant := range mutants {
		t.Run(name, func(t *testing.T) {
			if mutant.slow && !*slow {
				t.Skip("may take minutes: needs -slow")
			}
			t.Parallel()
			stall := stalls
			if mutant.long {
				stall = longStalls
			}
			h := newHarness(t, append(mutant.edits, stall)...)
			start, seed := time.Now(), seed()
			for round := uint64(0); ; round++ {
				require.Less(t, time.Since(start), 5*time.Minute, "the harness did not find the mutant: %v", h.n)
				if v := h.play(seed+round, 3*time.Second, false); len(v.violations) > 0 {
					first, _, _ := strings.Cut(v.String(), "\n")
					t.Logf("%s found in round %d, after %v, %d times: %s", name, round+1, time.Since(start).Round(time.Millisecond), len(v.violations), first)
					return
				}
			}
		})
	}
}
