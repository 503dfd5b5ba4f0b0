package pgbin

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// programs writes a folder of programs that answer --version and, as pg_config, --bindir.
func programs(t *testing.T, dir string, version string, names ...string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, name := range names {
		script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --bindir ] && echo '%s' || echo '%s (PostgreSQL) %s'\n", dir, name, version)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	}
	return dir
}

func lookIn(dir string) func(string) (string, error) {
	return func(name string) (string, error) {
		path := filepath.Join(dir, name)
		_, err := os.Stat(path)
		return path, err
	}
}

func TestFinder(t *testing.T) {
	t.Parallel()
	server := []string{"initdb", "pg_ctl", "postgres"}
	root := t.TempDir()
	v9 := programs(t, filepath.Join(root, "lib/9/bin"), "9.6.24", server...)
	v14 := programs(t, filepath.Join(root, "lib/14/bin"), "14.18 (Debian 14.18-1)", server...)
	v16 := programs(t, filepath.Join(root, "lib/16/bin"), "16.9", server...)
	programs(t, filepath.Join(root, "lib/18/bin"), "18.4", "psql", "pg_ctl") // a package of clients
	beta := programs(t, filepath.Join(root, "beta"), "19beta1", server...)
	config := programs(t, filepath.Join(root, "config"), "16.9", append(server, "pg_config")...)
	libpq := programs(t, filepath.Join(root, "libpq"), "17.5", "pg_config")
	links := filepath.Join(root, "links")
	require.NoError(t, os.Mkdir(links, 0o755))
	require.NoError(t, os.Symlink(filepath.Join(beta, "postgres"), filepath.Join(links, "postgres")))

	globs := []string{filepath.Join(root, "lib/*/bin")}
	for name, c := range map[string]struct {
		finder Finder
		want   string
	}{
		"NewestWithAServer":   {Finder{globs, lookIn(root)}, v16},
		"PgConfigFirst":       {Finder{globs, lookIn(config)}, config},
		"PgConfigOfLibpqOnly": {Finder{globs, lookIn(libpq)}, v16},
		"LinkInPath":          {Finder{globs, lookIn(links)}, beta},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := c.finder.Find(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.want, dir)
		})
	}

	t.Run("Incomplete", func(t *testing.T) {
		t.Parallel()
		_, err := Finder{lookPath: lookIn(libpq)}.Find(t.Context())
		require.EqualError(t, err, "no server programs: "+libpq+" has no initdb")
	})
	t.Run("Nothing", func(t *testing.T) {
		t.Parallel()
		_, err := Finder{lookPath: lookIn(root)}.Find(t.Context())
		require.ErrorContains(t, err, "PGONCE_PG_BINDIR can name one")
	})
	t.Run("Major", func(t *testing.T) {
		t.Parallel()
		f := Finder{globs, lookIn(config)}
		for major, want := range map[int][2]string{14: {v14, "14.18"}, 16: {config, "16.9"}} {
			dir, version, found := f.FindMajor(t.Context(), major)
			require.True(t, found)
			require.Equal(t, want, [2]string{dir, version})
		}
		for _, major := range []int{9, 15, 18} {
			_, _, found := f.FindMajor(t.Context(), major)
			require.False(t, found, major)
		}
	})
	t.Run("CheckTooOld", func(t *testing.T) {
		t.Parallel()
		_, err := Check(t.Context(), v9)
		require.EqualError(t, err, v9+"/postgres is version 9, pgonce needs 14 or later")
	})
	t.Run("CheckIncomplete", func(t *testing.T) {
		t.Parallel()
		_, err := Check(t.Context(), libpq)
		require.EqualError(t, err, libpq+" has no initdb")
	})
}
