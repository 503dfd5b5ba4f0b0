package pgonce_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/field-failures.md and the tests name each other: every TestCaseNN is in the row of its case, and so is every pgTAP file
// that has a case in a description; no row names what is not there.
func TestFieldFailures(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("docs", "field-failures.md"))
	require.NoError(t, err)
	var documented []string
	line := regexp.MustCompile(`(?m)^\| (\d\d) \|(?:[^|\n]+\|){3}([^|\n]+)\|$`)
	for _, row := range line.FindAllStringSubmatch(string(page), -1) {
		tests := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1)
		require.NotEmpty(t, tests, "case %s has no test", row[1])
		for _, test := range tests {
			documented = append(documented, row[1]+" "+test[1])
		}
	}
	require.Len(t, regexp.MustCompile(`(?m)^\| \d`).FindAllString(string(page), -1), len(line.FindAllString(string(page), -1)), "a row is not read")

	sources := map[string]bool{}
	err = filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		pattern, name := `(?m)^func (TestCase(\d\d)\w*)\(t \*testing\.T\)`, func(m []string) string { return m[2] + " " + m[1] }
		switch {
		case strings.HasSuffix(path, "_test.go"):
		case strings.HasPrefix(path, filepath.Join("sql", "test")) && strings.HasSuffix(path, ".sql"):
			pattern, name = `'case (\d\d): `, func(m []string) string { return m[1] + " " + filepath.ToSlash(path) }
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			if _, again := sources[name(m)]; again && strings.HasSuffix(path, "_test.go") {
				return fmt.Errorf("%s: a second %s", path, m[1])
			}
			sources[name(m)] = true
		}
		return err
	})
	require.NoError(t, err)
	var found []string
	for source := range sources {
		found = append(found, source)
	}
	require.ElementsMatch(t, found, documented)
}
