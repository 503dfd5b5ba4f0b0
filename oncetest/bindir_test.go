package oncetest

import (
	"errors"
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

func TestBinDir(t *testing.T) {
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
		finder binDirFinder
		want   string
	}{
		"NewestWithAServer":   {binDirFinder{globs: globs, lookPath: lookIn(root)}, v16},
		"PgConfigFirst":       {binDirFinder{globs: globs, lookPath: lookIn(config)}, config},
		"PgConfigOfLibpqOnly": {binDirFinder{globs: globs, lookPath: lookIn(libpq)}, v16},
		"LinkInPath":          {binDirFinder{globs: globs, lookPath: lookIn(links)}, beta},
		"Fixed":               {binDirFinder{fixed: v14, globs: globs, lookPath: lookIn(config)}, v14},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := c.finder.find(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.want, dir)
		})
	}

	t.Run("FixedTooOld", func(t *testing.T) {
		t.Parallel()
		_, err := binDirFinder{fixed: v9, globs: globs, lookPath: lookIn(config)}.find(t.Context())
		require.EqualError(t, err, "PGONCE_PG_BINDIR: "+v9+"/postgres is version 9, pgonce needs 14 or later")
		require.True(t, errors.As(err, new(finalError)))
	})
	t.Run("FixedIncomplete", func(t *testing.T) {
		t.Parallel()
		_, err := binDirFinder{fixed: libpq, globs: globs, lookPath: lookIn(config)}.find(t.Context())
		require.EqualError(t, err, "PGONCE_PG_BINDIR: "+libpq+" has no initdb")
	})
	t.Run("Incomplete", func(t *testing.T) {
		t.Parallel()
		_, err := binDirFinder{lookPath: lookIn(libpq)}.find(t.Context())
		require.EqualError(t, err, "no server programs: "+libpq+" has no initdb")
		require.False(t, errors.As(err, new(finalError)))
	})
	t.Run("Nothing", func(t *testing.T) {
		t.Parallel()
		_, err := binDirFinder{lookPath: lookIn(root)}.find(t.Context())
		require.ErrorContains(t, err, "PGONCE_PG_BINDIR can name one")
	})
}
