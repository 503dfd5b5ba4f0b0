package oncetest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/pgbin"
)

// archive packs the machine's server programs as the repository of embedded-postgres has them: a jar that holds a .txz.
func archive(t *testing.T) []byte {
	t.Helper()
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("xz is not installed")
	}
	binDir, err := newLocalWay(os.Getenv("PGONCE_PG_BINDIR")).find(t.Context())
	if err != nil {
		missing(t, os.Getenv, err)
	}
	var files bytes.Buffer
	tw := tar.NewWriter(&files)
	home := filepath.Dir(binDir)
	for _, name := range []string{"bin/initdb", "bin/pg_ctl", "bin/postgres", "lib", "share"} {
		err := filepath.WalkDir(filepath.Join(home, name), func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist): // Debian has share elsewhere
				return nil
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "bitcode": // for JIT, and large
				return fs.SkipDir
			case d.IsDir():
				return nil
			}
			name, err := filepath.Rel(home, path)
			require.NoError(t, err)
			if d.Type() == fs.ModeSymlink {
				target, err := os.Readlink(path)
				require.NoError(t, err)
				return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777})
			}
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(text))}
			require.NoError(t, tw.WriteHeader(header))
			_, err = tw.Write(text)
			return err
		})
		require.NoError(t, err)
	}
	require.NoError(t, tw.Close())
	xz := exec.CommandContext(t.Context(), "xz", "--stdout", "-0")
	xz.Stdin = &files
	packed, err := xz.Output()
	require.NoError(t, err)

	var jar bytes.Buffer
	zw := zip.NewWriter(&jar)
	w, err := zw.Create("postgres-linux-x86_64.txz")
	require.NoError(t, err)
	_, err = w.Write(packed)
	require.NoError(t, err)
	require.NoError(t, zw.Close())
	return jar.Bytes()
}

func TestEmbeddedServer(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("programs cannot be moved on every system")
	}
	jar := archive(t)
	var downloads atomic.Int32
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, string(embeddedVersion)+".jar") {
			http.NotFound(w, r)
			return
		}
		downloads.Add(1)
		_, _ = w.Write(jar)
	}))
	defer repository.Close()
	cache := tempDir(t)
	way := embeddedWay{repository: repository.URL, cache: cache}

	// Two at once, as two test processes are.
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			_, err := way.programs(t.Context())
			if err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	require.Positive(t, downloads.Load())
	entries, err := os.ReadDir(cache)
	require.NoError(t, err)
	require.Len(t, entries, 1, "only the programs stay")

	repository.Close()
	server, err := way.start(t.Context(), Options{})
	require.NoError(t, err, "the programs are there: nothing is downloaded")
	defer func() { _ = server.stop() }()
	require.Equal(t, 1, query[int](t, server.url, "SELECT 1"))
	require.NoError(t, server.stop())
	requireGone(t, server.pid, server.dataDir)
}

func TestEmbeddedServerFailures(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	nobody, err := pgbin.FreePort()
	require.NoError(t, err)
	stop := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stop }))
	defer hangs.Close()
	defer close(stop)

	for name, c := range map[string]struct{ repository, want string }{
		"NoSuchVersion": {gone.URL, "no version found matching " + string(embeddedVersion)},
		"NoRepository":  {"http://127.0.0.1:" + itoa(nobody), "unable to connect to http://127.0.0.1:" + itoa(nobody)},
	} {
		cache := t.TempDir()
		_, err := embeddedWay{repository: c.repository, cache: cache}.start(t.Context(), Options{})
		require.ErrorContains(t, err, "downloading PostgreSQL "+string(embeddedVersion)+": "+c.want, name)
		requireEmpty(t, cache)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = embeddedWay{repository: hangs.URL, cache: tempDir(t)}.start(ctx, Options{})
	require.ErrorIs(t, err, context.Canceled)
}
