package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func exampleResults() *results {
	load := func(perSecond ...float64) map[int]*loadRuns {
		return map[int]*loadRuns{8: {PerSecond: perSecond, P50: []float64{1}, P99: []float64{2}}}
	}
	r := &results{Server: "18.1", Workers: []int{8}, Rounds: 3, Series: []*series{
		{Name: "bare", Load: load(1000, 500, 1000), Delayed: []float64{3000, 3000, 3000}, WALBytes: []float64{200, 200, 200}},
		{Name: "raw", Load: load(800, 400, 800), Delayed: []float64{4000, 4000, 4000}, WALBytes: []float64{400, 400, 400}},
		{Name: "run", Load: load(700, 300, 600), Delayed: []float64{3300, 3600, 3000}, WALBytes: []float64{440, 400, 480}},
	}}
	r.computeRatios()
	return r
}

func TestTableEndsWithHeadlines(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer
	require.NoError(t, exampleResults().writeTable(&out))
	text := out.String()

	require.Regexp(t, `(?m)^run_vs_bare_8w +0\.600 +0\.600 +0\.700$`, text)
	_, tail, found := strings.Cut(text, "\n\nratio run_vs_bare_8w")
	require.True(t, found)
	require.Equal(t, " 0.600\nratio run_vs_bare_rtt1ms_p50 1.100\nratio run_vs_raw_wal 1.100\n", tail,
		"what did not take part (threetx, consume, replay) has no ratio")
}

func TestJSON(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer
	require.NoError(t, exampleResults().writeJSON(&out))

	var decoded results
	require.NoError(t, json.Unmarshal(out.Bytes(), &decoded))
	require.Equal(t, exampleResults(), &decoded)
	require.Contains(t, decoded.Ratios, ratio{Name: "run_vs_raw_8w", summary: summary{Median: 0.75, Min: 0.75, Max: 0.875}})
}
