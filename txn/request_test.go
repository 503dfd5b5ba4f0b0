package txn_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/internal/pgbouncer"
	"github.com/pgonce/pgonce/txn"
)

func TestBadRequestsAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`SELECT once.create_scope('tenants', '7 days', '3 days', p_subject_required => true)`)
	db := openSQL(t, s.URL)
	conn := s.conn()
	warm(t, conn)
	s.exec("DELETE FROM once_data.orders_g1")
	long := strings.Repeat("k", pgonce.MaxKeyLen+1)
	for name, c := range map[string]struct {
		req  txn.Request
		code string
	}{
		"no scope":                {txn.Request{Key: "k"}, pgonce.CodeUnknownScope},
		"unknown scope":           {txn.Request{Scope: "nowhere", Key: "k"}, pgonce.CodeUnknownScope},
		"scope in capitals":       {txn.Request{Scope: "Orders", Key: "k"}, pgonce.CodeUnknownScope},
		"scope with a quote":      {txn.Request{Scope: `orders"; --`, Key: "k"}, pgonce.CodeUnknownScope},
		"scope with NUL":          {txn.Request{Scope: "orders\x00", Key: "k"}, pgonce.CodeUnknownScope},
		"long scope":              {txn.Request{Scope: long, Key: "k"}, pgonce.CodeUnknownScope},
		"no key":                  {txn.Request{Scope: "orders"}, pgonce.CodeInvalidKey},
		"long key":                {txn.Request{Scope: "orders", Key: long}, pgonce.CodeInvalidKey},
		"key long in bytes":       {txn.Request{Scope: "orders", Key: strings.Repeat("☃", 86)}, pgonce.CodeInvalidKey},
		"key with NUL":            {txn.Request{Scope: "orders", Key: "a\x00b"}, pgonce.CodeInvalidKey},
		"key that is no text":     {txn.Request{Scope: "orders", Key: "\xff"}, pgonce.CodeInvalidKey},
		"long subject":            {txn.Request{Scope: "orders", Key: "k", Subject: long}, pgonce.CodeInvalidSubject},
		"subject with NUL":        {txn.Request{Scope: "orders", Key: "k", Subject: "\x00"}, pgonce.CodeInvalidSubject},
		"subject that is no text": {txn.Request{Scope: "orders", Key: "k", Subject: "\xc3("}, pgonce.CodeInvalidSubject},
		"missing subject":         {txn.Request{Scope: "tenants", Key: "k"}, pgonce.CodeInvalidSubject},
		"negative wait":           {txn.Request{Scope: "orders", Key: "k", Wait: -1}, pgonce.CodeInvalidArgument},
		"strict, but waiting":     {txn.Request{Scope: "orders", Key: "k", Strict: true, Wait: 1}, pgonce.CodeInvalidArgument},
		"negative CommitTimeout":  {txn.Request{Scope: "orders", Key: "k", CommitTimeout: -1}, pgonce.CodeInvalidArgument},
		"read only": {txn.Request{Scope: "orders", Key: "k", TxOptions: pgx.TxOptions{AccessMode: pgx.ReadOnly}},
			pgonce.CodeInvalidArgument},
		"BEGIN of one's own": {txn.Request{Scope: "orders", Key: "k", TxOptions: pgx.TxOptions{BeginQuery: "begin"}},
			pgonce.CodeInvalidArgument},
		"COMMIT of one's own": {txn.Request{Scope: "orders", Key: "k", TxOptions: pgx.TxOptions{CommitQuery: "commit"}},
			pgonce.CodeInvalidArgument},
		"large meta": {txn.Request{Scope: "orders", Key: "k", Meta: []byte(`{"a": "` + strings.Repeat("x", 20000) + `"}`)},
			pgonce.CodeInvalidArgument},
		"meta that is no JSON": {txn.Request{Scope: "orders", Key: "k", Meta: []byte(`{"a"`)}, pgonce.CodeInvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			called := false
			for handle, run := range map[string]func() error{
				"pool": func() error {
					_, err := txn.Run(t.Context(), s.Pool, c.req, func(ctx context.Context, tx pgx.Tx) (int64, error) { called = true; return order("a")(ctx, tx) })
					return err
				},
				"conn": func() error {
					_, err := txn.Consume(t.Context(), conn, c.req, func(context.Context, pgx.Tx) error { called = true; return nil })
					return err
				},
				"database/sql": func() error {
					_, err := txn.RunSQL(t.Context(), db, c.req, func(ctx context.Context, tx *sql.Tx) (int64, error) { called = true; return orderSQL("a")(ctx, tx) })
					return err
				},
				"pgx.Tx": func() error {
					return pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
						_, err := txn.Run(t.Context(), tx, c.req, func(ctx context.Context, tx pgx.Tx) (int64, error) { called = true; return order("a")(ctx, tx) })
						return err
					})
				},
				"Claim": func() error {
					return pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
						claimed, err := txn.Claim(t.Context(), tx, c.req)
						if err == nil {
							err = claimed.Complete(t.Context(), nil)
						}
						return err
					})
				},
			} {
				if handle == "Claim" && c.req.CommitTimeout < 0 {
					continue
				}
				err := run()
				require.Equal(t, c.code, pgonce.Code(err), "%s: %v", handle, err)
				// Only what the database alone can tell comes after the function.
				if c.req.Meta == nil {
					require.False(t, called, handle)
				}
			}
		})
	}
	s.requireNothing()
	require.Zero(t, s.count("once_data.tenants"))
	s.requireIdle(s.Pool)
	s.requireIdleSQL(db)
}

func TestKeysOfEveryLength(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, n := range []int{1, 2, 254, 255} {
		req := txn.Request{Scope: "orders", Subject: strings.Repeat("s", n), Key: strings.Repeat("k", n)}
		for _, want := range []pgonce.Outcome{pgonce.Fresh, pgonce.Replay} {
			result, err := txn.Run(t.Context(), s.Pool, req, order("a"))
			require.NoError(t, err)
			require.Equal(t, want, result.Outcome)
		}
	}
	require.Equal(t, 4, s.orders())
}

func TestNoDatabase(t *testing.T) {
	t.Parallel()
	_, err := txn.Run(t.Context(), nil, request("k"), never[int](t))
	require.ErrorContains(t, err, "no database")
	_, err = txn.Claim(t.Context(), nil, request("k"))
	require.ErrorContains(t, err, "no transaction")
}

func TestTheWaitOfTheSessionIsRespected(t *testing.T) {
	t.Parallel()
	pgbouncer.NeedsSession(t, "its lock_timeout")
	s := newShop(t)
	release := s.holding(request("k"))
	conn := s.conn()
	_, err := conn.Exec(t.Context(), "SET lock_timeout = '20ms'")
	require.NoError(t, err)
	for _, wait := range []time.Duration{0, time.Hour} {
		req := request("k")
		req.Wait = wait
		_, err = txn.Run(t.Context(), conn, req, never[int64](t))
		require.ErrorIs(t, err, pgonce.ErrInProgress)
	}
	var timeout string
	require.NoError(t, conn.QueryRow(t.Context(), "SHOW lock_timeout").Scan(&timeout))
	require.Equal(t, "20ms", timeout)
	require.NoError(t, release())
}
