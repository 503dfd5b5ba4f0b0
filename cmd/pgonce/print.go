package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// outputFormat is the value of --output.
type outputFormat string

const (
	outputTable outputFormat = "table"
	outputJSON  outputFormat = "json"
)

// Set implements pflag.Value.
func (f *outputFormat) Set(text string) error {
	switch v := outputFormat(text); v {
	case outputTable, outputJSON:
		*f = v
		return nil
	}
	return fmt.Errorf("must be %s or %s", outputTable, outputJSON)
}

// String implements pflag.Value.
func (f *outputFormat) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *outputFormat) Type() string { return "format" }

// print writes a value as one line of JSON, or its table, whose cells are separated by tabs.
func (e *env) print(value any, table func(w io.Writer)) error {
	if e.output == outputJSON {
		encoder := json.NewEncoder(e.stdout)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	table(w)
	return w.Flush()
}

// utc returns t in UTC, nil for nil.
func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// cell returns a time as a table shows it.
func cell(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// bytesText returns a size as a table shows it.
func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return strconv.FormatInt(n, 10) + " B"
	}
	value, i := float64(n)/unit, 0
	for value >= unit && i < len("kMGTP")-1 {
		value, i = value/unit, i+1
	}
	return fmt.Sprintf("%.1f %cB", value, "kMGTP"[i])
}
