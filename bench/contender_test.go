package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewKey(t *testing.T) {
	t.Parallel()

	seen := map[string]bool{}
	for range 1000 {
		key := newKey()
		require.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, key)
		require.False(t, seen[key], key)
		seen[key] = true
	}
}

func TestSelectContenders(t *testing.T) {
	t.Parallel()

	names := func(selected []contender) (names []string) {
		for _, c := range selected {
			names = append(names, c.Name())
		}
		return names
	}

	all, err := selectContenders(nil)
	require.NoError(t, err)
	require.Subset(t, names(all), []string{"bare", "raw", "threetx", "raw_replay", "threetx_replay"})

	some, err := selectContenders([]string{"raw", "bare"})
	require.NoError(t, err)
	require.Equal(t, []string{"bare", "raw"}, names(some))

	_, err = selectContenders([]string{"bare", "nobody"})
	require.EqualError(t, err, `only: no contender "nobody"`)
}
