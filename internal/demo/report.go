package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what became of a delivery log at both receivers.
type Report struct {
	Deliveries   int `json:"deliveries"` // in the log
	Unique       int `json:"unique"`     // distinct events in the log
	NaiveGrants  int `json:"naive_grants"`
	PgonceGrants int `json:"pgonce_grants"`

	// Lost and Doubled are events at the receiver with pgonce: acknowledged without the grant that the answer named,
	// or never granted; and granted more than once.
	Lost    int `json:"lost"`
	Doubled int `json:"doubled"`

	Providers []ProviderReport `json:"providers"` // in the order of the log
	Naive     SideReport       `json:"naive"`
	Pgonce    SideReport       `json:"pgonce"`

	Took time.Duration `json:"took_ns"`

	// URL is the database that was left running, empty unless asked for. Its table demo.grants holds the grants.
	URL string `json:"url,omitempty"`
	// Note says how to end what was left running, empty unless asked for.
	Note string `json:"note,omitempty"`
}

// ProviderReport is one provider's part of the log.
type ProviderReport struct {
	Provider     string   `json:"provider"`
	Deliveries   int      `json:"deliveries"`
	Events       int      `json:"events"`
	NaiveGrants  int      `json:"naive_grants"`
	PgonceGrants int      `json:"pgonce_grants"`
	Replays      int      `json:"replays"` // answers of the receiver with pgonce that repeated the stored result
	Faults       []string `json:"faults"`  // what happened to its deliveries, at both receivers
}

// SideReport is what one receiver went through.
type SideReport struct {
	Redeliveries int `json:"redeliveries"` // forced by the faults: the delivery before was not acknowledged
	Twins        int `json:"twins"`        // deliveries added to the log's, fired together with one of them
	Undelivered  int `json:"undelivered"`  // never acknowledged
	Kills        int `json:"kills"`        // of the receiver, by SIGKILL
	Cuts         int `json:"cuts"`         // of its connection, during COMMIT
}

// OK reports whether pgonce granted every event exactly once, and the receiver without defence did not.
func (r Report) OK() bool { return len(r.Problems()) == 0 }

// Problems says in words why the report is not OK.
func (r Report) Problems() []string {
	var problems []string
	problem := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	problem(r.PgonceGrants != r.Unique, "pgonce granted %d times for %d events", r.PgonceGrants, r.Unique)
	problem(r.Lost != 0, "events lost: %d", r.Lost)
	problem(r.Doubled != 0, "events granted more than once: %d", r.Doubled)
	problem(r.Pgonce.Undelivered != 0, "deliveries that were never acknowledged: %d", r.Pgonce.Undelivered)
	problem(r.NaiveGrants <= r.Unique,
		"the receiver without defence granted %d times for %d events: what happened to it proves nothing", r.NaiveGrants, r.Unique)
	return problems
}

// WriteTable writes the report for humans. Its last line is for scripts.
func (r Report) WriteTable(w io.Writer) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROVIDER\tDELIVERIES\tEVENTS\tNAIVE GRANTS\tPGONCE GRANTS\tREPLAYS\tFAULTS")
	replays := 0
	for _, p := range r.Providers {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\n",
			p.Provider, p.Deliveries, p.Events, p.NaiveGrants, p.PgonceGrants, p.Replays, strings.Join(p.Faults, " "))
		replays += p.Replays
	}
	fmt.Fprintf(table, "total\t%d\t%d\t%d\t%d\t%d\t\n", r.Deliveries, r.Unique, r.NaiveGrants, r.PgonceGrants, replays)
	if err := table.Flush(); err != nil {
		return err
	}

	fmt.Fprintln(&text)
	for _, side := range []struct {
		name string
		SideReport
	}{{"naive", r.Naive}, {"pgonce", r.Pgonce}} {
		fmt.Fprintf(&text, "%-6s  receiver killed %d times, connection cut during COMMIT %d times, redeliveries forced by that %d, concurrent twins added %d\n",
			side.name, side.Kills, side.Cuts, side.Redeliveries, side.Twins)
	}
	fmt.Fprintf(&text, "took %v\n", r.Took.Round(time.Millisecond))
	if r.URL != "" {
		fmt.Fprintf(&text, "database left running: %s\n", r.URL)
	}
	if r.Note != "" {
		fmt.Fprintln(&text, r.Note)
	}
	for _, problem := range r.Problems() {
		fmt.Fprintf(&text, "NOT OK: %s\n", problem)
	}
	fmt.Fprintf(&text, "deliveries=%d unique=%d naive_grants=%d pgonce_grants=%d lost=%d doubled=%d\n",
		r.Deliveries, r.Unique, r.NaiveGrants, r.PgonceGrants, r.Lost, r.Doubled)
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteJSON writes the report as one JSON object, with ok and problems.
func (r Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Report
		OK       bool     `json:"ok"`
		Problems []string `json:"problems,omitempty"`
	}{r, r.OK(), r.Problems()})
}
