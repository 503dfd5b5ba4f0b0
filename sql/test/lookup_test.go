package sqltest

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A look-up that was on its way when generations rotated does not miss a row that was carried over to the new one.
func TestALookUpThatARotationAndACarryOverPass(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	claim(t, b.Pool, "k", "")
	b.rotate(slice)
	finish(t, b.Pool, "another, for the next rotation")
	b.settleDown(slice)

	mover := b.begin(pgx.ReadCommitted)
	exec(t, mover, "LOCK TABLE once_data.s_g1 IN ACCESS EXCLUSIVE MODE") // the look-up has read the fence, and waits for this
	conn := b.begin(pgx.ReadCommitted)
	connPID := pid(t, conn)
	answer := make(chan string, 1)
	go func() {
		var row string
		if err := conn.QueryRow(t.Context(), "SELECT concat_ws(' ', generation, state) FROM once.lookup('s', 'k')").Scan(&row); err != nil {
			row = err.Error()
		}
		answer <- row
	}()
	b.awaitBlocked(connPID)
	maintainer := b.session()
	for _, want := range []string{"rotate 3: done", "switch 3: done"} {
		require.Equal(t, []string{want}, step(t, maintainer, past))
	}
	for _, want := range []string{"drain 2: done", "carry over 1: done"} {
		require.Equal(t, []string{want}, step(t, mover, past))
	}
	commit(t, mover)
	require.Equal(t, "3 parked", <-answer)
}
