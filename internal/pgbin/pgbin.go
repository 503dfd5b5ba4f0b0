// Package pgbin finds PostgreSQL's server programs on this machine, and runs them.
package pgbin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MinVersion is the oldest major version that pgonce supports.
const MinVersion = 14

// globs is where packages put the server programs of each major version.
var globs = []string{
	"/usr/lib/postgresql/*/bin",                               // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                        // RPM packages of the PostgreSQL project
	"/opt/homebrew/opt/postgresql@*/bin",                      // Homebrew on Apple silicon
	"/usr/local/opt/postgresql@*/bin",                         // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",         // Homebrew on Linux
	"/Applications/Postgres.app/Contents/Versions/[0-9]*/bin", // Postgres.app
	"/usr/libexec/postgresql*",                                // Alpine
	"/usr/local/pgsql/bin",                                    // built from source
}

// Finder looks for a folder with the server programs. Its methods may be called concurrently.
type Finder struct {
	globs    []string
	lookPath func(name string) (string, error)
}

// NewFinder returns one that asks pg_config, then PATH, then looks where packages put the programs, newest first.
func NewFinder() Finder { return Finder{globs, exec.LookPath} }

// Find returns the first folder with all programs of a supported version.
func (f Finder) Find(ctx context.Context) (string, error) {
	dir, _, err := f.first(ctx, func(string) bool { return true })
	return dir, err
}

// FindMajor returns the first folder with all programs of a major version, and the full version. found is false where
// there is none.
func (f Finder) FindMajor(ctx context.Context, major int) (dir, version string, found bool) {
	dir, version, err := f.first(ctx, func(version string) bool { return Major(version) == major })
	return dir, version, err == nil
}

func (f Finder) first(ctx context.Context, wanted func(version string) bool) (dir, version string, err error) {
	var failed []error
	for _, dir := range f.candidates(ctx) {
		version, err := Check(ctx, dir)
		if err == nil && wanted(version) {
			return dir, version, nil
		}
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return "", "", fmt.Errorf("no server programs: %w", err)
	}
	return "", "", errors.New("no server programs: neither pg_config nor postgres is in PATH, " +
		"and no package's folder is there; PGONCE_PG_BINDIR can name one")
}

// candidates in the order of preference, without repetitions.
func (f Finder) candidates(ctx context.Context) []string {
	var dirs []string
	add := func(dir string) {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if config, err := f.lookPath("pg_config"); err == nil {
		if out, err := exec.CommandContext(ctx, config, "--bindir").Output(); err == nil {
			add(strings.TrimSpace(string(out)))
		}
	}
	if program, err := f.lookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(program); err == nil {
			program = real
		}
		add(filepath.Dir(program))
	}
	for _, pattern := range f.globs {
		found, _ := filepath.Glob(pattern)
		slices.SortStableFunc(found, func(a, b string) int {
			return cmp.Compare(Major(matched(pattern, b)), Major(matched(pattern, a)))
		})
		for _, dir := range found {
			add(dir)
		}
	}
	return dirs
}

// matched is the part of a path that stands where the pattern has its wildcard.
func matched(pattern, path string) string {
	parts := strings.Split(path, string(filepath.Separator))
	for i, part := range strings.Split(pattern, string(filepath.Separator)) {
		if strings.Contains(part, "*") && i < len(parts) {
			return parts[i]
		}
	}
	return ""
}

var (
	firstNumber = regexp.MustCompile(`[0-9]+`)
	versionText = regexp.MustCompile(`\(PostgreSQL\) (\S+)`)
)

// Major is the first number in s, 0 if there is none: the major version, in a version, the name of a folder or what
// --version prints.
func Major(s string) int {
	n, _ := strconv.Atoi(firstNumber.FindString(s))
	return n
}

// Version is what a program of PostgreSQL says of its own version, such as 15.18 or 19beta1.
func Version(ctx context.Context, program string) (string, error) {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", program, err)
	}
	m := versionText.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s --version says %q", program, out)
	}
	return string(m[1]), nil
}

// Check wants all programs in a folder, of a supported version, which it returns. Packages of clients and of libpq have
// only some.
func Check(ctx context.Context, dir string) (version string, err error) {
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return "", fmt.Errorf("%s has no %s", dir, name)
		}
	}
	program := filepath.Join(dir, "postgres")
	version, err = Version(ctx, program)
	if err != nil {
		return "", err
	}
	if major := Major(version); major < MinVersion {
		return "", fmt.Errorf("%s is version %d, pgonce needs %d or later", program, major, MinVersion)
	}
	return version, nil
}

// CacheDir is where downloaded programs are kept: this user's cache folder, or one that everybody may enter for root,
// because the account that root starts a server as cannot look into root's own.
func CacheDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/pgonce", nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "pgonce"), err
}
