package sqltest

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// old is a base with keys in two sealed generations and in the open third one, all drained and settled.
func old(t *testing.T) (b *base, unfinished claimed) {
	b = newBase(t)
	finish(t, b.Pool, "first")
	unfinished = claim(t, b.Pool, "unfinished", "")
	b.rotate(slice)
	finish(t, b.Pool, "second")
	b.rotate(2 * slice)
	b.settleDown(2 * slice)
	finish(t, b.Pool, "third")
	require.Equal(t, int64(3), b.epoch())
	return b, unfinished
}

// requireBroken wants every call to be refused with what to do.
func (b *base) requireBroken() {
	b.t.Helper()
	for _, sql := range []string{
		"SELECT once.claim('s', 'first')", "SELECT once.claim('s', 'new')", "SELECT once.claim_many('s', '{new}')",
		"SELECT once.lookup('s', 'first')", "SELECT once.current_epoch('s')",
		"SELECT once.complete('s', 'unfinished', gen_random_uuid(), 1)",
	} {
		_, err := b.Pool.Exec(b.t.Context(), sql)
		require.Contains(b.t, requireCode(b.t, "ON010", err).Hint, "once.maintain", sql)
	}
}

func (b *base) requireRecognised(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		requireOutcome(b.t, b.Pool, "replay", key)
	}
}

func TestRepair(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks []string
		epoch  int64
	}{
		"fence ahead":       {[]string{"SELECT setval('once_data.s_fence', 8)"}, 9},
		"fence behind":      {[]string{"SELECT setval('once_data.s_fence', 1)"}, 3},
		"fence never set":   {[]string{"ALTER SEQUENCE once_data.s_fence RESTART"}, 3},
		"functions dropped": {[]string{"DROP FUNCTION once_data.s_claim_e3, once_data.s_settle_e3, once_data.s_lookup_e3, once_data.s_takeover_e3, once_data.s_renew_e3"}, 4},
		"sequences never set, as by logical replication": {[]string{
			"ALTER SEQUENCE once_data.s_fence RESTART", "ALTER SEQUENCE once_data.s_seed RESTART"}, 3},
		"fence ahead, catalogue lost": {[]string{
			"SELECT setval('once_data.s_fence', 8)", "DELETE FROM once.epoch", "DELETE FROM once.generation"}, 9},
		"fence ahead, newest generations unknown": {[]string{
			"SELECT setval('once_data.s_fence', 8)", "DELETE FROM once.epoch WHERE epoch = 3", "DELETE FROM once.generation WHERE generation > 1"}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, unfinished := old(t)
			for _, sql := range c.breaks {
				b.exec(sql)
			}
			b.requireBroken()

			report := b.settleDown(0)
			require.NotEmpty(t, report)
			require.Regexp(t, "^repair", report[0])
			require.Equal(t, c.epoch, b.epoch())
			b.requireRecognised("first", "second", "third")
			requireOutcome(t, b.Pool, "in_progress", "unfinished")
			complete(t, b.Pool, "unfinished", unfinished)
			finish(t, b.Pool, "new")
			b.requireRecognised("unfinished", "new")
			require.True(t, get[bool](t, b.Pool, "SELECT pg_sequence_last_value('once_data.s_seed') IS NOT NULL"))

			// And for good.
			require.Empty(t, b.settleDown(0))
			if c.epoch == 3 { // which opened its generation two slices from now
				b.rotate(3 * slice)
			} else {
				b.rotate(slice)
			}
			b.requireRecognised("third", "new")
		})
	}
}

// What is left of an epoch's functions is no longer called.
func TestRepairOfOneMissingFunction(t *testing.T) {
	t.Parallel()
	for _, function := range []string{"claim", "settle", "lookup"} {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			b, unfinished := old(t)
			b.exec("DROP FUNCTION once_data.s_" + function + "_e3")
			require.Contains(t, b.settleDown(0), "repair 4: done")
			b.requireRecognised("first", "second", "third")
			complete(t, b.Pool, "unfinished", unfinished)
		})
	}
}

func TestRepairOfAMissingTable(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{"1", "2", "3"} {
		t.Run(generation, func(t *testing.T) {
			t.Parallel()
			b, _ := old(t)
			b.exec("DROP TABLE once_data.s_g" + generation)
			_, err := b.Pool.Exec(t.Context(), "SELECT once.claim('s', 'new')")
			require.Error(t, err, "which keys are gone is not known")

			report := b.settleDown(0)
			require.Equal(t, []string{"repair: missing", "repair 4: done"}, report[:2])
			lost := map[string]string{"1": "first", "2": "second", "3": "third"}[generation]
			for _, key := range []string{"first", "second", "third"} {
				if key != lost {
					b.requireRecognised(key)
				}
			}
			require.Equal(t, "fresh", claim(t, b.Pool, lost, "").Outcome)
			require.Empty(t, b.settleDown(0))
		})
	}
}

// An earlier epoch that was not forgotten yet comes to work again. What it wrote is recognised, and its generation is drained
// once more.
func TestRepairOfAFenceThatWentBack(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	finish(t, b.Pool, "first")
	idle := b.begin(pgx.ReadCommitted)
	exec(t, idle, "SELECT 1")
	b.rotate(slice)
	require.Equal(t, "drained", b.state(1))

	b.exec("SELECT setval('once_data.s_fence', 1)")
	finish(t, b.Pool, "second")
	writer := b.begin(pgx.ReadCommitted)
	claim(t, writer, "third", "")
	require.Equal(t, 1, get[int](t, b.Pool, "SELECT generation FROM once.lookup('s', 'second')"))

	require.Equal(t, []string{"repair: done", "switch 2: done", "drain 1: waiting"}, without(b.maintain(slice), "settle: waiting"))
	require.Equal(t, int64(2), b.epoch())
	b.requireRecognised("first", "second")
	// The generation's mark being gone, a snapshot taken now does not trust its own view of it.
	for _, level := range higher {
		tx := b.snapshot(level)
		requireOutcome(t, tx, "in_progress", "third")
		rollback(t, tx)
	}
	late := b.snapshot(pgx.RepeatableRead)
	commit(t, writer)
	_, err := tryClaim(t.Context(), late, "third", "")
	requireCode(t, "40001", err)
	rollback(t, idle)
	require.Contains(t, b.settleDown(slice), "drain 1: done")
	b.requireRecognised("first", "second")
	requireOutcome(t, b.Pool, "in_progress", "third")
}

// A partition that a DBA attached is none of the scope's generations.
func TestAForeignPartitionIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	b.exec("CREATE TABLE once_data.history (LIKE once_data.s)")
	b.exec("ALTER TABLE once_data.s ATTACH PARTITION once_data.history FOR VALUES IN (-1)")
	finish(t, b.Pool, "k")
	require.Empty(t, b.maintain(0))
	b.rotate(slice)
	b.requireRecognised("k")
}
