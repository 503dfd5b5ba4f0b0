package pgonce_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
)

func TestKeyString(t *testing.T) {
	t.Parallel()
	require.Equal(t, "orders/k", pgonce.Key{Scope: "orders", Key: "k"}.String())
	require.Equal(t, "orders/alice/k", pgonce.Key{Scope: "orders", Subject: "alice", Key: "k"}.String())
}

func TestKeyValidate(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("x", pgonce.MaxKeyLen)
	for _, ok := range []pgonce.Key{
		{Scope: "s", Key: "k"}, {Scope: "s", Subject: full, Key: full}, {Scope: "s", Key: " "}, {Scope: "s", Key: "☃\n\t"},
		{Scope: "s", Key: strings.Repeat("☃", 85)},
	} {
		require.NoError(t, ok.Validate(), "%q", ok)
	}
	for _, bad := range []struct {
		key  pgonce.Key
		code string
		text string
	}{
		{pgonce.Key{Key: "k"}, pgonce.CodeUnknownScope, "scope is empty"},
		{pgonce.Key{Scope: "\x00", Key: "k"}, pgonce.CodeUnknownScope, "scope contains a NUL byte"},
		{pgonce.Key{Scope: "s"}, pgonce.CodeInvalidKey, "key is empty"},
		{pgonce.Key{Scope: "s", Key: full + "x"}, pgonce.CodeInvalidKey, "key has 256 bytes, at most 255 are allowed"},
		{pgonce.Key{Scope: "s", Key: strings.Repeat("☃", 86)}, pgonce.CodeInvalidKey, "key has 258 bytes, at most 255 are allowed"},
		{pgonce.Key{Scope: "s", Key: "a\x00"}, pgonce.CodeInvalidKey, "key contains a NUL byte"},
		{pgonce.Key{Scope: "s", Key: "\xff"}, pgonce.CodeInvalidKey, "key is not valid UTF-8"},
		{pgonce.Key{Scope: "s", Key: "k", Subject: full + "x"}, pgonce.CodeInvalidSubject, "subject has 256 bytes, at most 255 are allowed"},
		{pgonce.Key{Scope: "s", Key: "k", Subject: "\x00"}, pgonce.CodeInvalidSubject, "subject contains a NUL byte"},
		{pgonce.Key{Scope: "s", Key: "k", Subject: "\xed\xa0\x80"}, pgonce.CodeInvalidSubject, "subject is not valid UTF-8"},
	} {
		err := bad.key.Validate()
		var invalid *pgonce.InvalidError
		require.ErrorAs(t, err, &invalid, "%q", bad.key)
		require.Equal(t, bad.code, invalid.Code)
		require.Equal(t, bad.text, invalid.Message)
	}
}
