package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/oncetest"
)

// TestMeasure runs the whole benchmark for a moment. Every contender sees to it itself that a new key is done and a
// known one is not.
func TestMeasure(t *testing.T) {
	t.Parallel()

	selected, err := selectContenders(nil)
	require.NoError(t, err)
	found, err := measure(t.Context(), options{
		url:      oncetest.Postgres(t).AdminURL,
		rounds:   1,
		duration: 20 * time.Millisecond,
		workers:  []int{1, 8},
		warmup:   10,
		ops:      10,
	}, selected)
	require.NoError(t, err)

	trips := map[string]float64{}
	for _, s := range found.Series {
		trips[s.Name] = s.Trips.Waited
		require.Len(t, s.WALBytes, 1, s.Name)
		require.Len(t, s.Delayed, 1, s.Name)
		require.Positive(t, s.Load[1].PerSecond[0], s.Name)
		require.Positive(t, s.Load[8].P50[0], s.Name)
	}
	require.Equal(t, map[string]float64{
		"bare": 3, "raw": 4, "threetx": 5, "sql": 5, "run": 3, "consume": 3,
		"rawtoken": 5, "token": 4, "replay": 1, "raw_replay": 3, "threetx_replay": 2,
	}, trips, "round trips of an operation do not depend on the machine")

	for _, name := range headlines {
		require.True(t, slices.ContainsFunc(found.Ratios, func(r ratio) bool { return r.Name == name && r.Median > 0 }), name)
	}
}
