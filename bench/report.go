package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// series is everything that was measured of one contender; one element a round. Latencies are in microseconds.
type series struct {
	Name       string            `json:"name"`
	Load       map[int]*loadRuns `json:"load"` // by number of workers
	ClientCPU  []float64         `json:"client_cpu_us_per_op"`
	ServerCPU  []float64         `json:"server_cpu_us_per_op"`
	Delayed    []float64         `json:"p50_rtt1ms_us,omitempty"`
	WALBytes   []float64         `json:"wal_bytes_per_op"`
	WALRecords []float64         `json:"wal_records_per_op"`
	WALImages  []float64         `json:"wal_images_per_op"`
	Trips      tripsPerOp        `json:"round_trips_per_op"`
}

type loadRuns struct {
	PerSecond []float64 `json:"per_second"`
	P50       []float64 `json:"p50_us"`
	P99       []float64 `json:"p99_us"`
}

// ratio is one contender's figure divided by another's.
type ratio struct {
	Name string `json:"name"`
	summary
}

// headlines are the ratios that the table ends with, one a line, for scripts.
var headlines = []string{
	"run_vs_bare_8w",
	"consume_vs_bare_8w",
	"replay_vs_bare_8w",
	"run_vs_threetx_8w",
	"run_vs_bare_rtt1ms_p50",
	"run_vs_raw_wal",
	"token_vs_rawtoken_8w",
}

// results is what a benchmark found out.
type results struct {
	Server  string    `json:"server"`
	Sync    bool      `json:"synchronous_commit"`
	Workers []int     `json:"workers"`
	Rounds  int       `json:"rounds"`
	Series  []*series `json:"contenders"`
	Ratios  []ratio   `json:"ratios"`
}

func (r *results) find(name string) *series {
	for _, s := range r.Series {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// computeRatios fills in the ratios of all contenders that took part.
func (r *results) computeRatios() {
	add := func(x, y, suffix string, values func(*series) []float64) {
		sx, sy := r.find(x), r.find(y)
		if sx == nil || sy == nil {
			return
		}
		if ratios := pairedRatios(values(sx), values(sy)); len(ratios) > 0 {
			r.Ratios = append(r.Ratios, ratio{Name: x + "_vs_" + y + "_" + suffix, summary: summarize(ratios)})
		}
	}
	perSecond := func(workers int) func(*series) []float64 {
		return func(s *series) []float64 { return s.Load[workers].PerSecond }
	}
	delayed := func(s *series) []float64 { return s.Delayed }
	walBytes := func(s *series) []float64 { return s.WALBytes }

	for _, workers := range r.Workers {
		suffix := fmt.Sprintf("%dw", workers)
		for _, s := range r.Series {
			if s.Name != "bare" {
				add(s.Name, "bare", suffix, perSecond(workers))
			}
		}
		for _, other := range []string{"raw", "threetx"} {
			add("run", other, suffix, perSecond(workers))
		}
		add("token", "rawtoken", suffix, perSecond(workers))
	}
	for _, s := range r.Series {
		if s.Name != "bare" {
			add(s.Name, "bare", "rtt1ms_p50", delayed)
		}
	}
	for _, other := range []string{"bare", "raw", "threetx"} {
		add("run", other, "wal", walBytes)
	}
	add("token", "rawtoken", "wal", walBytes)
}

func (r *results) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// writeTable prints the medians of every contender, the ratios with their spread, and the headlines.
func (r *results) writeTable(w io.Writer) error {
	commit := "off"
	if r.Sync {
		commit = "on"
	}
	fmt.Fprintf(w, "PostgreSQL %s, synchronous_commit = %s, medians of %d rounds (least of them for processor time); ratios are paired per round\n\n",
		r.Server, commit, r.Rounds)

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "contender\t")
	for _, workers := range r.Workers {
		fmt.Fprintf(table, "%dw op/s\tp50 µs\tp99 µs\t", workers)
	}
	fmt.Fprint(table, "1 ms RTT p50 µs\ttrips\tbehind\tleast server CPU µs\tleast client CPU µs\tWAL B/op\trecords\timages\t\n")
	for _, s := range r.Series {
		fmt.Fprintf(table, "%s\t", s.Name)
		for _, workers := range r.Workers {
			load := s.Load[workers]
			fmt.Fprintf(table, "%.0f\t%.0f\t%.0f\t",
				summarize(load.PerSecond).Median, summarize(load.P50).Median, summarize(load.P99).Median)
		}
		fmt.Fprintf(table, "%.0f\t%.1f\t%.1f\t%.0f\t%.0f\t%.0f\t%.1f\t%.3f\t\n",
			summarize(s.Delayed).Median, s.Trips.Waited, s.Trips.Behind,
			summarize(s.ServerCPU).Min, summarize(s.ClientCPU).Min,
			summarize(s.WALBytes).Median, summarize(s.WALRecords).Median, summarize(s.WALImages).Median)
	}
	if err := table.Flush(); err != nil {
		return err
	}

	fmt.Fprintln(w)
	table = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "ratio\tmedian\tmin\tmax\n")
	for _, ratio := range r.Ratios {
		fmt.Fprintf(table, "%s\t%.3f\t%.3f\t%.3f\n", ratio.Name, ratio.Median, ratio.Min, ratio.Max)
	}
	if err := table.Flush(); err != nil {
		return err
	}

	fmt.Fprintln(w)
	for _, ratio := range r.Ratios {
		if slices.Contains(headlines, ratio.Name) {
			if _, err := fmt.Fprintf(w, "ratio %s %.3f\n", ratio.Name, ratio.Median); err != nil {
				return err
			}
		}
	}
	return nil
}
