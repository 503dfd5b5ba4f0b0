package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/testenv"
)

func TestEveryStepStandsInTheSQL(t *testing.T) {
	steps := regexp.MustCompile(`/\* (_?\w+\.sql): (.*?) \*/`).FindAllStringSubmatch(string(source), -1)
	require.NotEmpty(t, steps)
	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var rows [][2]string
	for _, m := range regexp.MustCompile("(?m)^\\| .* \\| `(_?\\w+\\.sql)` \\| `(.*)` \\|$").FindAllStringSubmatch(string(page), -1) {
		rows = append(rows, [2]string{m[1], strings.ReplaceAll(m[2], `\|`, "|")})
	}
	var want [][2]string
	for _, step := range steps {
		file, text := step[1], step[2]
		sql, err := os.ReadFile(filepath.Join("..", "..", "sql", "schema", "functions", file))
		require.NoError(t, err)
		require.Contains(t, string(sql), text, "%s: the step that once.pml stands for has changed", file)
		want = append(want, [2]string{file, text})
	}
	require.Equal(t, want, rows, "README.md has the steps of once.pml, in its order")
}

func TestEverySafeguardIsSwitchedOff(t *testing.T) {
	tried := make(map[string]bool)
	for _, s := range searches {
		for _, name := range s.off {
			tried[name] = true
		}
	}
	for name := range safeguards() {
		require.True(t, tried[name], "no search switches %s off", name)
		require.Contains(t, string(source), "OFF("+name+")")
	}
	require.Len(t, tried, len(safeguards()), "once.pml has no such safeguard")
}

func TestQuickSearches(t *testing.T) {
	v, err := newVerifier(t.Context(), 4000)
	if err != nil && strings.Contains(err.Error(), "is not installed") {
		testenv.Missing(t, err.Error())
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.close()) })
	for _, s := range searches {
		if !s.quick {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			f, err := v.search(t.Context(), s)
			require.NoError(t, err)
			require.True(t, f.expected(s), "%+v", f)
		})
	}
}
