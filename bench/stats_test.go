package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSummarize(t *testing.T) {
	t.Parallel()

	values := []float64{3, 1, 2}
	require.Equal(t, summary{Median: 2, Min: 1, Max: 3}, summarize(values))
	require.Equal(t, []float64{3, 1, 2}, values, "the order of the rounds must survive")

	require.Equal(t, summary{Median: 2.5, Min: 1, Max: 9}, summarize([]float64{9, 2, 1, 3}))
	require.Equal(t, summary{Median: 7, Min: 7, Max: 7}, summarize([]float64{7}))

	empty := summarize(nil)
	require.NotEqual(t, empty.Median, empty.Median, "NaN")
}

func TestPairedRatios(t *testing.T) {
	t.Parallel()

	// The second round ran on a machine twice as slow: the ratio does not show it.
	require.Equal(t, []float64{0.5, 0.5}, pairedRatios([]float64{100, 50}, []float64{200, 100}))
	require.Equal(t, []float64{2}, pairedRatios([]float64{4, 5}, []float64{2}))
	require.Empty(t, pairedRatios(nil, []float64{1}))
}

func TestPercentile(t *testing.T) {
	t.Parallel()

	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for p, want := range map[float64]time.Duration{0: 1, 1: 1, 50: 50, 50.5: 51, 99: 99, 100: 100} {
		require.Equal(t, want, percentile(hundred, p), "percentile %v", p)
	}
	require.Equal(t, time.Duration(2), percentile([]time.Duration{1, 2, 3}, 50))
	require.Equal(t, time.Duration(3), percentile([]time.Duration{1, 2, 3}, 99))
	require.Zero(t, percentile(nil, 50))
}

func TestShuffled(t *testing.T) {
	t.Parallel()

	values := []string{"a", "b", "c"}
	require.Equal(t, []string{"a", "b", "c"}, shuffled(values, 0))
	require.Equal(t, []string{"a", "c", "b"}, shuffled(values, 1))
	require.Equal(t, []string{"c", "a", "b"}, shuffled(values, 2))
	require.Equal(t, []string{"c", "b", "a"}, shuffled(values, 3))
	require.Equal(t, []string{"a", "b", "c"}, values)
	require.Empty(t, shuffled([]string{}, 4))
}
