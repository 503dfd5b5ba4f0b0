package oncetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// settings of a started server, but for where it listens and keeps its files.
func (o Options) settings() map[string]string {
	s := map[string]string{
		"log_timezone":              "UTC",
		"max_connections":           "200",
		"max_prepared_transactions": "20",
		"timezone":                  "UTC",
		"wal_level":                 "logical",
	}
	if !o.Durable {
		s["fsync"] = "off"
		s["full_page_writes"] = "off"
		s["synchronous_commit"] = "off"
	}
	maps.Copy(s, o.Settings)
	return s
}

// configFile renders settings for postgresql.conf.
func configFile(settings map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(settings[name])
		fmt.Fprintf(&b, "%s = '%s'\n", name, value)
	}
	return b.String()
}
