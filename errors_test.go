package pgonce_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
)

var key = pgonce.Key{Scope: "orders", Subject: "alice", Key: "k"}

func TestTypedErrorsMatchTheirSentinel(t *testing.T) {
	t.Parallel()
	sentinels := []error{
		pgonce.ErrMismatch, pgonce.ErrInProgress, pgonce.ErrFailed, pgonce.ErrParked, pgonce.ErrLost,
		pgonce.ErrResultOmitted, pgonce.ErrOutcomeUnknown,
	}
	cause := errors.New("card declined")
	for _, c := range []struct {
		err  error
		is   error
		text string
	}{
		{&pgonce.MismatchError{Key: key}, pgonce.ErrMismatch, "orders/alice/k: key was used with another fingerprint"},
		{
			&pgonce.InProgressError{Key: key, RetryAfter: time.Second}, pgonce.ErrInProgress,
			"orders/alice/k: claim is in progress, ask again after 1s",
		},
		{pgonce.NewFailedError(key, cause), pgonce.ErrFailed, "orders/alice/k: operation failed finally: card declined"},
		{
			&pgonce.FailedError{Key: key, Message: "no", Replayed: true}, pgonce.ErrFailed,
			"orders/alice/k: operation failed finally: no",
		},
		{&pgonce.ParkedError{Key: key, Attempt: 3}, pgonce.ErrParked, "orders/alice/k: claim is parked after attempt 3"},
		{
			&pgonce.ResultOmittedError{Key: key, Bytes: 5000}, pgonce.ErrResultOmitted,
			"orders/alice/k: done, but stored result was omitted: 5000 bytes are more than the scope's max_result_bytes",
		},
	} {
		require.EqualError(t, c.err, c.text)
		wrapped := fmt.Errorf("checkout: %w", c.err)
		for _, sentinel := range sentinels {
			require.Equal(t, sentinel == c.is, errors.Is(wrapped, sentinel), "%v is %v", c.err, sentinel)
		}
	}
}

func TestFailedErrorUnwrapsToItsCauseAtTheFirstCallOnly(t *testing.T) {
	t.Parallel()
	cause := &pgconn.PgError{Code: "23514"}
	first := pgonce.NewFailedError(key, cause)
	require.ErrorIs(t, first, cause)
	require.False(t, first.Replayed)
	require.Equal(t, cause.Error(), first.Message)
	replayed := &pgonce.FailedError{Key: key, Message: first.Message, Replayed: true}
	require.NoError(t, errors.Unwrap(replayed))
}

func TestCode(t *testing.T) {
	t.Parallel()
	require.Equal(t, "40001", pgonce.Code(&pgconn.PgError{Code: "40001"}))
	require.Equal(t, "40001", pgonce.Code(fmt.Errorf("claim: %w", &pgconn.PgError{Code: "40001"})))
	require.Equal(t, pgonce.CodeInvalidKey, pgonce.Code(fmt.Errorf("claim: %w", pgonce.Key{Scope: "orders"}.Validate())))
	require.Empty(t, pgonce.Code(errors.New("other")))
	require.Empty(t, pgonce.Code(nil))
	require.EqualError(t, &pgonce.InvalidError{Code: "ON002", Message: "key is empty"}, "key is empty (SQLSTATE ON002)")
}

// The SQL raises what Go names, and the README explains both.
func TestCodesAreTheSameInSQLGoAndREADME(t *testing.T) {
	t.Parallel()
	named := goCodes(t)
	codes := make([]string, 0, len(named))
	for code := range named {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	for i, code := range codes {
		require.Equal(t, fmt.Sprintf("ON%03d", i+1), code, "the codes have no gaps")
	}

	require.Equal(t, codes, sqlCodes(t), "SQL")

	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	documented := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(ON[0-9A-Z]{3})` \\| `(Code[A-Za-z]+)` \\| [^|]+ \\|$").FindAllStringSubmatch(string(readme), -1) {
		documented[m[1]] = m[2]
	}
	require.Equal(t, named, documented, "README.md")
}

// goCodes are the constants of errors.go, code to name.
func goCodes(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	require.NoError(t, err)
	codes := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		require.NotContains(t, codes, code)
		codes[code] = spec.Names[0].Name
		return true
	})
	require.NotEmpty(t, codes)
	return codes
}

// sqlCodes are those of class ON that the functions raise, in order.
func sqlCodes(t *testing.T) []string {
	t.Helper()
	var codes []string
	literal := regexp.MustCompile(`ERRCODE\s*=\s*'(ON[^']*)'`)
	err := filepath.WalkDir(filepath.Join("sql", "schema", "functions"), func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".sql") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range literal.FindAllStringSubmatch(string(text), -1) {
			codes = append(codes, m[1])
		}
		return err
	})
	require.NoError(t, err)
	slices.Sort(codes)
	return slices.Compact(codes)
}
