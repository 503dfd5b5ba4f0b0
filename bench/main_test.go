package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseFlags(t *testing.T) {
	t.Parallel()

	opts, err := parseFlags(nil)
	require.NoError(t, err)
	require.Equal(t, options{rounds: 5, duration: 2 * time.Second, workers: []int{1, 8}, output: "table",
		warmup: 2000, ops: 1000}, opts)

	opts, err = parseFlags([]string{"--rounds", "7", "--duration=300ms", "--workers", "4", "--only", "bare,raw",
		"--output", "json", "--url", "postgres:///x", "--sync"})
	require.NoError(t, err)
	require.Equal(t, options{url: "postgres:///x", rounds: 7, duration: 300 * time.Millisecond, workers: []int{4},
		only: []string{"bare", "raw"}, output: "json", sync: true, warmup: 2000, ops: 1000}, opts)

	for arg, message := range map[string]string{
		"--workers=0":   `workers: "0" is not a positive number`,
		"--workers=1,":  `workers: "" is not a positive number`,
		"--output=xml":  `output: "xml" is neither table nor json`,
		"--rounds=0":    "rounds and duration must be positive",
		"--duration=0s": "rounds and duration must be positive",
		"stray":         `unexpected argument "stray"`,
	} {
		_, err := parseFlags([]string{arg})
		require.EqualError(t, err, message, arg)
	}
}
