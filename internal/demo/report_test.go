package demo

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func goodReport() Report {
	return Report{
		Deliveries: 5, Unique: 2, NaiveGrants: 6, PgonceGrants: 2,
		Providers: []ProviderReport{{Provider: "stripe", Deliveries: 5, Events: 2, NaiveGrants: 6, PgonceGrants: 2, Replays: 3, Faults: []string{"cut-after-server"}}},
	}
}

func TestReport_OK(t *testing.T) {
	t.Parallel()

	require.True(t, goodReport().OK())
	for name, spoil := range map[string]func(*Report){
		"TooFewGrants":  func(r *Report) { r.PgonceGrants = 1 },
		"TooManyGrants": func(r *Report) { r.PgonceGrants = 3 },
		"Lost":          func(r *Report) { r.Lost = 1 },
		"Doubled":       func(r *Report) { r.Doubled = 1 },
		"Undelivered":   func(r *Report) { r.Pgonce.Undelivered = 1 },
		"NoPower":       func(r *Report) { r.NaiveGrants = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := goodReport()
			spoil(&report)
			require.False(t, report.OK())
			require.Len(t, report.Problems(), 1)

			var table strings.Builder
			require.NoError(t, report.WriteTable(&table))
			require.Contains(t, table.String(), "NOT OK: "+report.Problems()[0])
		})
	}
}

func TestReport_WriteTable(t *testing.T) {
	t.Parallel()

	report := goodReport()
	report.URL, report.Note = "postgres://x/y", "end it so"
	var table strings.Builder
	require.NoError(t, report.WriteTable(&table))
	lines := strings.Split(table.String(), "\n")
	require.Equal(t, "PROVIDER  DELIVERIES  EVENTS  NAIVE GRANTS  PGONCE GRANTS  REPLAYS  FAULTS", lines[0])
	require.Equal(t, "stripe    5           2       6             2              3        cut-after-server", lines[1])
	require.Contains(t, lines, "database left running: postgres://x/y")
	require.Contains(t, lines, "end it so")
	require.Equal(t, []string{"deliveries=5 unique=2 naive_grants=6 pgonce_grants=2 lost=0 doubled=0", ""}, lines[len(lines)-2:])
}

func TestReport_WriteJSON(t *testing.T) {
	t.Parallel()

	report := goodReport()
	report.Lost = 1
	var text strings.Builder
	require.NoError(t, report.WriteJSON(&text))
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(text.String()), &got))
	require.Equal(t, false, got["ok"])
	require.Equal(t, []any{"events lost: 1"}, got["problems"])
	require.InDelta(t, 6, got["naive_grants"], 0)
	require.NotContains(t, got, "url")
}

func TestReport_Count(t *testing.T) {
	t.Parallel()

	log := planLog(0, "kept", "kept", "never", "twice", "vanished")
	key := func(id string) eventKey { return eventKey{"stripe", id} }
	report := summarise(log)
	report.count(log, nil, side{granted: map[eventKey][]string{key("kept"): {"1", "2"}}}, side{
		granted: map[eventKey][]string{key("kept"): {"k"}, key("twice"): {"t", "u"}, key("vanished"): {"v"}},
		tally: tally{
			replays: map[string]int{"stripe": 1},
			coupons: map[eventKey]map[string]bool{key("kept"): {"k": true}, key("twice"): {"t": true}, key("vanished"): {"w": true}},
		},
	})

	require.Equal(t, 4, report.Unique)
	require.Equal(t, 2, report.NaiveGrants)
	require.Equal(t, 4, report.PgonceGrants)
	require.Equal(t, 1, report.Doubled, "granted twice")
	require.Equal(t, 2, report.Lost, "never granted, and acknowledged with a coupon that does not exist")
}
