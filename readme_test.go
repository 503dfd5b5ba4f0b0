package pgonce_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/oncetest"
)

func readmeBlock(t *testing.T, language string) string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	match := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(readme)
	require.NotNil(t, match, "README.md has no %s block", language)
	return string(match[1])
}

// The README's Go is a part of an example that is compiled with everything else.
func TestReadmeGo(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile("examples/callback/main.go")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(program), "// README: from here\n")
	require.True(t, found)
	part, _, found := strings.Cut(rest, "\n// README: to here")
	require.True(t, found)
	require.Equal(t, part, readmeBlock(t, "go"))
}

// The README's SQL is run, and gives the outcomes that its comments promise.
func TestReadmeSQL(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	database := oncetest.Postgres(t)
	conn, err := database.Pool.Acquire(ctx)
	require.NoError(t, err)
	defer conn.Release()
	_, err = conn.Exec(ctx, `CREATE TABLE public.coupon (id bigint GENERATED ALWAYS AS IDENTITY, order_ref text NOT NULL)`)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, `SET search_path = public`)
	require.NoError(t, err)

	outcomes := 0
	for line := range strings.SplitSeq(readmeBlock(t, "sql"), "\n") {
		statement, comment, _ := strings.Cut(line, "--")
		if strings.TrimSpace(statement) == "" {
			continue
		}
		rows, err := conn.Query(ctx, statement, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err, statement)
		values, err := pgx.CollectRows(rows, pgx.RowToMap)
		require.NoError(t, err, statement)
		if strings.Contains(statement, "SELECT outcome") {
			outcomes++
			require.Len(t, values, 1)
			require.True(t, strings.HasPrefix(strings.TrimSpace(comment), values[0]["outcome"].(string)), "%v: %s", values, line)
		}
	}
	require.Equal(t, 2, outcomes)
	var coupons int
	require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM coupon`).Scan(&coupons))
	require.Equal(t, 1, coupons)
}
