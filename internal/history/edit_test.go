package history

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// edit changes a piece of the text of one of pgonce's private functions, or of the functions that it compiles.
type edit struct {
	function string
	old, new string
}

// apply fails if there is nothing to edit: the text was changed, and the edit has to follow.
func (e edit) apply(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	var text string
	require.NoError(t, pool.QueryRow(context.Background(),
		"SELECT pg_catalog.pg_get_functiondef(('once.' || $1)::regproc)", e.function).Scan(&text))
	require.Contains(t, text, e.old, "nothing to edit in %s", e.function)
	_, err := pool.Exec(context.Background(), strings.ReplaceAll(text, e.old, e.new))
	require.NoError(t, err)
}

// stalls has one claim in seven stop where it hurts most: after it has looked at the fence, before its insert, for up to
// the life of a generation.
var stalls = stall("0.15", "0.3")

// longStalls has every second one stop for long enough that generations are sealed and drained meanwhile.
var longStalls = stall("0.5", "0.9")

// stall has a share of all claims stop for up to so many seconds.
func stall(share, seconds string) edit {
	const before = "    v_id := coalesce(p_claim_id, gen_random_uuid());"
	return edit{"_compile_claim", before, fmt.Sprintf(`
    IF random() < %s THEN
        PERFORM pg_sleep(random() * %s);
    END IF;
%s`, share, seconds, before)}
}
