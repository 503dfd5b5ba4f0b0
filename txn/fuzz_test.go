package txn_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// FuzzKey: a key and subject that Validate lets through are stored and found again, byte for byte, and no others with them;
// what it refuses is refused by everything.
func FuzzKey(f *testing.F) {
	for _, seed := range [][2]string{
		{"", "k"}, {"alice", "k"}, {"k", ""}, {"", "\x00"}, {"\xff", "k"}, {"a'b", `"\`}, {"☃", "ÅÅ"}, {" ", "\t\n"},
		{"", strings.Repeat("k", 255)}, {"", strings.Repeat("k", 256)}, {"", strings.Repeat("☃", 86)}, {"a", "b%_;--"},
	} {
		f.Add(seed[0], seed[1])
	}
	s := newShop(f)
	f.Fuzz(func(t *testing.T, subject, key string) {
		ctx := context.Background()
		name := pgonce.Key{Scope: "orders", Subject: subject, Key: key}
		req := txn.Request{Scope: name.Scope, Subject: subject, Key: key}
		if err := name.Validate(); err != nil {
			_, err = txn.Run(ctx, s.Pool, req, never[[]byte](t))
			require.Equal(t, pgonce.Code(name.Validate()), pgonce.Code(err))
			return
		}
		value := []byte(subject + "\x00" + key)
		for range 2 { // the second time, or when the same key comes again, it is a replay
			result, err := txn.Run(ctx, s.Pool, req, func(context.Context, pgx.Tx) ([]byte, error) { return value, nil })
			require.NoError(t, err)
			require.Equal(t, value, result.Value)
		}
		record, found, err := txn.Lookup(ctx, s.Pool, name)
		require.NoError(t, err)
		require.True(t, found)
		var stored []byte
		require.NoError(t, record.Decode(nil, &stored))
		require.Equal(t, value, stored)
		var rows int
		const count = "SELECT count(*) FROM once_data.orders WHERE subject = $1 AND key = $2"
		require.NoError(t, s.Pool.QueryRow(ctx, count, subject, key).Scan(&rows))
		require.Equal(t, 1, rows)
	})
}
