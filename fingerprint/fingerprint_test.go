package fingerprint

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/oncetest"
)

func TestFields(t *testing.T) {
	t.Parallel()
	lists := [][]string{
		nil, {""}, {"", ""}, {"ab", "c"}, {"a", "bc"}, {"abc"}, {"c", "ab"}, {"a", "b", "c"}, {"", "abc"}, {"abc", ""},
		{"a\x00b"}, {"a", "b"}, {strings.Repeat("\x00", 8)}, {strings.Repeat("a", 256)},
	}
	seen := make(map[string][]string)
	for _, list := range lists {
		sum := Fields(list...)
		require.Len(t, sum, Size)
		require.Equal(t, sum, Fields(list...))
		require.NotContains(t, seen, string(sum), "%q", list)
		seen[string(sum)] = list
	}
}

// Digests are stored, so they must never change.
func TestDigestsStay(t *testing.T) {
	t.Parallel()
	jsonSum, err := JSON([]byte(`{"b": 1, "a": 2}`))
	require.NoError(t, err)
	fieldsSum, err := JSONFields([]byte(`{"b": 1, "a": null}`), "/b", "/a", "/c")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		sum  []byte
		want string
	}{
		"Bytes":      {Bytes([]byte("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}, // FIPS 180-2
		"BytesEmpty": {Bytes(nil), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		"Fields":     {Fields("ab", "c"), hex.EncodeToString(Bytes([]byte("\x00\x00\x00\x00\x00\x00\x00\x02ab\x00\x00\x00\x00\x00\x00\x00\x01c")))},
		"JSON":       {jsonSum, hex.EncodeToString(Bytes([]byte(`{"a":2,"b":1}`)))},
		"JSONFields": {fieldsSum, hex.EncodeToString(Fields("/a", "null", "/b", "1", "/c", ""))},
	} {
		require.Equal(t, c.want, hex.EncodeToString(c.sum), name)
	}
}

// The documentation tells SQL users how to make the same digests.
func TestDigestsInSQL(t *testing.T) {
	t.Parallel()
	var bytes, fields []byte
	require.NoError(t, oncetest.Postgres(t).Pool.QueryRow(t.Context(), `
		SELECT sha256(convert_to(a, 'UTF8')),
		       sha256(int8send(octet_length(a)) || convert_to(a, 'UTF8') || int8send(octet_length(b)) || convert_to(b, 'UTF8'))
		  FROM (VALUES ('zwölf', 'EUR')) AS v(a, b)`).Scan(&bytes, &fields))
	require.Equal(t, Bytes([]byte("zwölf")), bytes)
	require.Equal(t, Fields("zwölf", "EUR"), fields)
}
