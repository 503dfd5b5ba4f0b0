// Package deps checks that the packages of this module depend on each other one way, and keep heavy modules out of
// what services link.
package deps

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/pgonce/pgonce"

// layers, from the bottom: a package imports only what stands below it. Those that are not listed (the schema, the
// migrations, internal packages) are below none of them.
var layers = [][]string{
	{""}, // the root package
	{"db"},
	{"txn"},
	{"archive", "effect", "httpkey", "reconcile"},
	{"cmd"},
}

// heavy modules, which a service that imports pgonce must not link.
var heavy = []string{
	"github.com/docker/",
	"github.com/fergusstrange/embedded-postgres",
	"github.com/golang-migrate/migrate",
	"github.com/moby/",
	"github.com/spf13/cobra",
	"github.com/testcontainers/",
}

// testServers are the modules that only oncetest may import, even in tests.
var testServers = []string{"github.com/fergusstrange/embedded-postgres", "github.com/testcontainers/"}

// goPackage is what go list says about a package.
type goPackage struct {
	ImportPath   string
	Deps         []string // imports of imports included, of tests not
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// layer of a package of this module, or -1.
func layer(path string) int {
	path = strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
	return slices.IndexFunc(layers, func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			return path == name || name != "" && strings.HasPrefix(path, name+"/")
		})
	})
}

func within(path, folder string) bool {
	return path == module+"/"+folder || strings.HasPrefix(path, module+"/"+folder+"/")
}

func hasAnyPrefix(path string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// violations of the rules, one line each.
func violations(packages []goPackage) []string {
	var found []string
	report := func(p goPackage, imported, rule string) {
		found = append(found, fmt.Sprintf("%s imports %s: %s", p.ImportPath, imported, rule))
	}
	cmd := len(layers) - 1
	for _, p := range packages {
		own := layer(p.ImportPath)
		for _, d := range p.Deps {
			inModule := d == module || strings.HasPrefix(d, module+"/")
			switch {
			case inModule && own >= 0 && layer(d) > own:
				report(p, d, "it is the wrong way")
			case within(p.ImportPath, "archive") && within(d, "txn"):
				report(p, d, "archive does without txn")
			case own >= 0 && own < cmd && hasAnyPrefix(d, heavy):
				report(p, d, "it is too heavy for a service")
			}
		}
		for _, d := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if hasAnyPrefix(d, testServers) && !within(p.ImportPath, "oncetest") {
				report(p, d, "only oncetest starts servers")
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestDependencies(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e",
		"-json=ImportPath,Deps,Imports,TestImports,XTestImports", module+"/...")
	out, err := cmd.Output()
	require.NoError(t, err)
	var packages []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	require.True(t, slices.ContainsFunc(packages, func(p goPackage) bool {
		return p.ImportPath == module+"/oncetest" && slices.ContainsFunc(p.Imports, func(d string) bool {
			return hasAnyPrefix(d, testServers)
		})
	}), "go list must see the imports that the rules are about")
	require.Empty(t, violations(packages))
}

func TestViolations(t *testing.T) {
	t.Parallel()
	const docker = "github.com/testcontainers/testcontainers-go"
	at := func(path string) string { return module + path }
	for name, c := range map[string]struct {
		pkg  goPackage
		want string
	}{
		"Down":               {goPackage{ImportPath: at("/effect"), Deps: []string{at("/txn"), at("/db"), module}}, ""},
		"SameLayer":          {goPackage{ImportPath: at("/reconcile"), Deps: []string{at("/effect")}}, ""},
		"Unlisted":           {goPackage{ImportPath: at("/txn"), Deps: []string{at("/internal/retry"), at("/txnlike")}}, ""},
		"CommandMayBeHeavy":  {goPackage{ImportPath: at("/cmd/pgonce"), Deps: []string{"github.com/spf13/cobra", docker}}, ""},
		"OncetestMayImport":  {goPackage{ImportPath: at("/oncetest"), Imports: []string{docker}, Deps: []string{docker}}, ""},
		"Up":                 {goPackage{ImportPath: at("/txn/internal/x"), Deps: []string{at("/httpkey")}}, "wrong way"},
		"RootImportsDB":      {goPackage{ImportPath: module, Deps: []string{at("/db")}}, "wrong way"},
		"TxnImportsArchive":  {goPackage{ImportPath: at("/txn"), Deps: []string{at("/archive")}}, "wrong way"},
		"ArchiveImportsTxn":  {goPackage{ImportPath: at("/archive/parquet"), Deps: []string{at("/txn")}}, "does without txn"},
		"LibraryImportsCmd":  {goPackage{ImportPath: at("/httpkey"), Deps: []string{at("/cmd/pgonce")}}, "wrong way"},
		"RootIsHeavy":        {goPackage{ImportPath: module, Deps: []string{"github.com/spf13/cobra"}}, "too heavy"},
		"TxnIsHeavy":         {goPackage{ImportPath: at("/txn"), Deps: []string{"github.com/golang-migrate/migrate/v4"}}, "too heavy"},
		"DBIsHeavy":          {goPackage{ImportPath: at("/db"), Deps: []string{"github.com/moby/moby/client"}}, "too heavy"},
		"TestsStartAServer":  {goPackage{ImportPath: at("/txn"), TestImports: []string{docker}}, "only oncetest"},
		"XTestsStartAServer": {goPackage{ImportPath: at("/bench"), XTestImports: []string{docker}}, "only oncetest"},
	} {
		found := strings.Join(violations([]goPackage{c.pkg}), "\n")
		if c.want == "" {
			require.Empty(t, found, name)
		} else {
			require.Contains(t, found, c.want, name)
		}
	}
}
