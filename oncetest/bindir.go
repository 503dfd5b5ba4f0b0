package oncetest

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

// binDirGlobs is where packages put the server programs of each major version.
var binDirGlobs = []string{
	"/usr/lib/postgresql/*/bin",                               // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                        // RPM packages of the PostgreSQL project
	"/opt/homebrew/opt/postgresql@*/bin",                      // Homebrew on Apple silicon
	"/usr/local/opt/postgresql@*/bin",                         // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",         // Homebrew on Linux
	"/Applications/Postgres.app/Contents/Versions/[0-9]*/bin", // Postgres.app
	"/usr/libexec/postgresql*",                                // Alpine
	"/usr/local/pgsql/bin",                                    // built from source
}

// binDirFinder looks for a folder with the server programs.
type binDirFinder struct {
	fixed    string // the only one allowed, if set
	globs    []string
	lookPath func(name string) (string, error)
}

func (f binDirFinder) find(ctx context.Context) (string, error) {
	if f.fixed != "" {
		if err := checkBinDir(ctx, f.fixed); err != nil {
			return "", finalError{fmt.Errorf("PGONCE_PG_BINDIR: %w", err)}
		}
		return f.fixed, nil
	}
	var failed []error
	for _, dir := range f.candidates(ctx) {
		err := checkBinDir(ctx, dir)
		if err == nil {
			return dir, nil
		}
		failed = append(failed, err)
	}
	if len(failed) == 0 {
		return "", errors.New("no server programs: neither pg_config nor postgres is in PATH, " +
			"and no package's folder is there; PGONCE_PG_BINDIR can name one")
	}
	return "", fmt.Errorf("no server programs: %w", errors.Join(failed...))
}

// candidates in the order of preference, without repetitions.
func (f binDirFinder) candidates(ctx context.Context) []string {
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
			return cmp.Compare(majorOf(matched(pattern, b)), majorOf(matched(pattern, a)))
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

var firstNumber = regexp.MustCompile(`[0-9]+`)

// majorOf is the first number in s: the major version, in the name of a folder and in what --version prints.
func majorOf(s string) int {
	n, _ := strconv.Atoi(firstNumber.FindString(s))
	return n
}

// checkBinDir wants all programs, of a supported version. Packages of clients and of libpq have only some.
func checkBinDir(ctx context.Context, dir string) error {
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return fmt.Errorf("%s has no %s", dir, name)
		}
	}
	program := filepath.Join(dir, "postgres")
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", program, err)
	}
	if major := majorOf(string(out)); major < minVersion {
		return fmt.Errorf("%s is version %d, pgonce needs %d or later", program, major, minVersion)
	}
	return nil
}
