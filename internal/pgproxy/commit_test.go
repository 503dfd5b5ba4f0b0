package pgproxy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHasCommit(t *testing.T) {
	t.Parallel()

	for sql, want := range map[string]bool{
		"commit":                                true,
		" COMMIT ; ":                            true,
		"commit work":                           true,
		"COMMIT AND CHAIN":                      true,
		"end":                                   true,
		"END TRANSACTION":                       true,
		"insert into t values (1); commit":      true,
		"commit; begin":                         true,
		"-- first\n/* then; */ commit":          true,
		"select 'it''s; '; commit":              true,
		`select E'\'; ', "a;b"; commit`:         true,
		"do $x$ begin null; end $x$; commit":    true,
		"":                                      false,
		"select 1":                              false,
		"select 'x; commit'":                    false,
		`select E'\'; commit'`:                  false,
		`select 1 as "x; commit"`:               false,
		"-- ; commit":                           false,
		"/* ; commit */ select 1":               false,
		"do $$ begin perform 1; commit; end $$": false,
		"do $a_1$ begin null; $$; commit; end $a_1$": false,
		"commit prepared 'x'":                        false,
		"prepare transaction 'x'":                    false,
		"rollback":                                   false,
		"committed":                                  false,
		"create function f() returns int begin atomic select 1; end":          false,
		"select case when true then 1 end; select 2":                          false,
		"create table t (); drop table t; -- the last one\nrollback; begin;;": false,
	} {
		require.Equal(t, want, hasCommit(sql), sql)
	}
}
