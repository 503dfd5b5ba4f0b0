package sqltest

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// canBeScope is the rule for names: 1 to 32 characters, a lower-case letter first, then lower-case letters, digits and
// underscores; not ending like another scope's tables.
func canBeScope(name string) bool {
	for i, c := range []byte(name) {
		if letter := 'a' <= c && c <= 'z'; !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	for _, ending := range []string{"_fence", "_seed", "_pk", "_open_idx"} {
		if strings.HasSuffix(name, ending) {
			return false
		}
	}
	withoutDigits := strings.TrimRight(name, "0123456789")
	return len(name) >= 1 && len(name) <= 32 && (withoutDigits == name || !strings.HasSuffix(withoutDigits, "_g"))
}

// FuzzScopeName: create_scope accepts what can be a scope's name and nothing else. What it accepts is stored byte for byte and
// works, beside any other scope; what it refuses changes nothing.
func FuzzScopeName(f *testing.F) {
	for _, name := range []string{
		"", "a", "z9_", "_a", "1a", "A", "aB", "a b", "a ", " a", "a\n", "a\x00", "\xff", "a\xc3(", "\ufffd", "é", "e\u0301", "ａ", "ß", "İ", "a\u200b",
		"a-b", "a.b", `a"b`, "a'b", `a\b`, "a%s", "a$1", "%I", "a;b", "'; DROP SCHEMA once CASCADE; --", "\x01", "a\t",
		"constructor", "__proto__", "pg_temp", "pg_catalog", "once", "once_data", "select", "user", "null", "public", "scope", "claim", "taken",
		"a_g", "a_g1", "a_g1x", "a_g12", "ag1", "g1", "a_fence", "a_fences", "fence", "a_seed", "a_pk", "a_open_idx", "a_claim_e1", "a_lookup_e1", "a_g1_pk", "a_",
		strings.Repeat("a", 31), strings.Repeat("a", 32), strings.Repeat("a", 33), strings.Repeat("é", 16), strings.Repeat("a", 63), strings.Repeat("a", 64),
		strings.Repeat("a", 1<<20), strings.Repeat("a", 28) + "_g12", strings.Repeat("a", 31) + "_",
	} {
		f.Add(name, "")
	}
	for _, pair := range [][2]string{{"a", "a"}, {"a", "b"}, {"a", "a_"}, {"a_claim_e1", "a"}, {"a", "a_lookup_e1"}, {"a_g", "a"}, {"a", "taken"}, {"a", "A"}} {
		f.Add(pair[0], pair[1])
	}
	b := empty(f)
	exec(f, b.Pool, "SELECT once.create_scope('taken', interval '2 hours', interval '1 hour')")
	f.Fuzz(func(t *testing.T, name, other string) {
		const everything = `SELECT concat((SELECT string_agg(s::text, ';' ORDER BY s.name) FROM once.scope AS s),
			(SELECT last_value FROM once.scope_scope_id_seq),
			(SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()))`
		tx, err := b.Pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
		var made []string
		for _, name := range []string{name, other} {
			before := get[string](t, tx, everything)
			want := ""
			switch {
			case !utf8.ValidString(name) || strings.Contains(name, "\x00"):
				want = "22021" // PostgreSQL's own refusal of what is no text: no function gets to see it
			case !canBeScope(name):
				want = "ON005"
			case name == "taken" || len(made) > 0 && made[0] == name:
				want = "ON006"
			}
			err := attempt(t, tx, "SELECT once.create_scope($1, interval '2 hours', interval '1 hour')", name)
			if want == "" {
				require.NoError(t, err)
				made = append(made, name)
				continue
			}
			require.NotEmpty(t, requireCode(t, want, err).Message)
			if want == "ON006" { // a number is used up, as by every insert that finds its row there
				continue
			}
			require.Equal(t, before, get[string](t, tx, everything))
			if want == "ON005" {
				want = "ON001"
			}
			requireCode(t, want, attempt(t, tx, "SELECT once.claim($1, 'k')", name))
			requireCode(t, want, attempt(t, tx, "SELECT once.lookup($1, 'k')", name))
		}
		for _, name := range made {
			require.Equal(t, []byte(name), get[[]byte](t, tx, "SELECT convert_to(name, 'UTF8') FROM once.scopes WHERE name = $1", name))
			require.Zero(t, get[int](t, tx, "SELECT count(*) FROM once.lookup($1, 'k')", name))
			var c claimed
			const claim = "SELECT outcome::text, attempt, claim_id::text FROM once.claim($1, 'k')"
			require.NoError(t, tx.QueryRow(t.Context(), claim, name).Scan(&c.Outcome, &c.Attempt, &c.ID))
			require.Equal(t, "fresh", c.Outcome)
			exec(t, tx, "SELECT once.complete($1, 'k', $2, $3, convert_to($1, 'UTF8'))", name, c.ID, c.Attempt)
		}
		for _, name := range made {
			require.Equal(t, name, get[string](t, tx, "SELECT convert_from(result, 'UTF8') FROM once.claim($1, 'k')", name))
			require.Equal(t, "done", get[string](t, tx, "SELECT state::text FROM once.lookup($1, 'k')", name))
		}
		if len(made) == 2 { // one goes, the other stays
			exec(t, tx, "SELECT once.drop_scope($1, true)", made[0])
			requireCode(t, "ON001", attempt(t, tx, "SELECT once.claim($1, 'k')", made[0]))
			require.Equal(t, made[1], get[string](t, tx, "SELECT convert_from(result, 'UTF8') FROM once.claim($1, 'k')", made[1]))
		}
	})
}

// attempt runs a statement that may fail, in a savepoint.
func attempt(t testing.TB, tx pgx.Tx, sql string, args ...any) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), tx, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), sql, args...)
		return err
	})
}
