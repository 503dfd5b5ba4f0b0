package sqltest

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// issue issues a token of the scope s, which needs a session length.
func (b *base) issue() string {
	b.t.Helper()
	b.exec("SELECT once.alter_scope('s', p_session_length => '10 hours')")
	return get[string](b.t, b.Pool, "SELECT once.issue_token('s', 'ann')")
}

func redeem(t testing.TB, q querier, token string) (claimed, error) {
	t.Helper()
	var c claimed
	err := q.QueryRow(t.Context(), "SELECT outcome::text, attempt, coalesce(claim_id::text, ''), result FROM once.redeem_token('s', $1, 'ann')", token).
		Scan(&c.Outcome, &c.Attempt, &c.ID, &c.Result)
	return c, err
}

func requireRedeem(t testing.TB, q querier, outcome, token string) claimed {
	t.Helper()
	c, err := redeem(t, q, token)
	require.NoError(t, err)
	require.Equal(t, outcome, c.Outcome)
	return c
}

// A token lives as long as it says, whatever becomes of its generation; one that has expired goes with its generation.
func TestTokensAndRetirement(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	open, used, expired := b.issue(), b.issue(), b.issue()
	c := requireRedeem(t, b.Pool, "redeemed", used)
	b.exec("SELECT once.complete('s', once.token_key($1), $2, 1, 'r')", used, c.ID)
	b.exec("UPDATE once_data.s SET lease_until = clock_timestamp() WHERE key = once.token_key($1)", expired)
	b.rotate(slice)
	b.settleDown(slice)
	undone := b.begin(pgx.ReadCommitted)
	requireRedeem(t, undone, "redeemed", open) // found where it was issued
	rollback(t, undone)
	requireRedeem(t, b.Pool, "expired", expired)

	report := b.settleDown(past)
	require.Contains(t, about(report, 1), "unlink 1: done")
	require.Equal(t, int64(1), get[int64](t, b.Pool, "SELECT carried FROM once.generations WHERE generation = 1"))
	for _, level := range append(higher, pgx.ReadCommitted) {
		tx := b.snapshot(level)
		requireRedeem(t, tx, "redeemed", open)
		rollback(t, tx)
	}
	requireRedeem(t, b.Pool, "unknown", expired)
	requireRedeem(t, b.Pool, "unknown", used) // its window is over
}

// A snapshot from before a carry-over, in an epoch that knows the token's new place only.
func TestATokenThatMovedBehindASnapshot(t *testing.T) {
	t.Parallel()
	for _, level := range higher {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			b := newBase(t)
			token := b.issue()
			b.rotate(slice)
			b.settleDown(slice)
			tx := b.snapshot(level)
			require.Contains(t, b.maintain(past), "unlink 1: done") // which the snapshot does not hold up
			_, err := redeem(t, tx, token)
			requireCode(t, "40001", err)
			requireRedeem(t, b.snapshot(level), "redeemed", token)
			unknown := b.snapshot(level)
			requireRedeem(t, unknown, "unknown", "never issued") // a new snapshot is sure
		})
	}
}

func TestTwoRedeemATokenAtOnce(t *testing.T) {
	t.Parallel()
	for _, level := range append(higher, pgx.ReadCommitted) {
		for _, commits := range []bool{true, false} {
			t.Run(string(level)+map[bool]string{true: " commits", false: " rolls back"}[commits], func(t *testing.T) {
				t.Parallel()
				b := newBase(t)
				token := b.issue()
				first, second := b.begin(pgx.ReadCommitted), b.snapshot(level)
				c := requireRedeem(t, first, "redeemed", token)
				require.Equal(t, "in_progress", get[string](t, b.Pool, "SELECT outcome::text FROM once.redeem_token('s', $1, 'ann', '0')", token), "strict")
				require.Equal(t, "in_progress", get[string](t, b.Pool, "SELECT outcome::text FROM once.redeem_token('s', $1, 'ann', '10 ms')", token), "a short wait")
				waiter := pid(t, second)
				type answer struct {
					claimed
					error
				}
				answers := make(chan answer, 1)
				go func() {
					c, err := redeem(t, second, token)
					answers <- answer{c, err}
				}()
				b.awaitBlocked(waiter)
				if commits {
					exec(t, first, "SELECT once.complete('s', once.token_key($1), $2, 1, 'r')", token, c.ID)
					commit(t, first)
				} else {
					rollback(t, first)
				}
				got := <-answers
				switch {
				case !commits:
					require.NoError(t, got.error)
					require.Equal(t, "redeemed", got.Outcome)
				case level == pgx.ReadCommitted:
					require.NoError(t, got.error)
					require.Equal(t, "replay", got.Outcome)
					require.Equal(t, "r", string(got.Result))
				default:
					requireCode(t, "40001", got.error)
				}
			})
		}
	}
}
