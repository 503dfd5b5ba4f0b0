package oncetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"github.com/pgonce/pgonce/internal/pgbin"
)

// embeddedVersion is the server that is downloaded.
const embeddedVersion = embeddedpostgres.V18

// embeddedWay downloads server programs, and starts them like those of the machine: embedded-postgres itself can
// neither run them as root nor end them with a killed process.
type embeddedWay struct {
	repository string // base URL, empty: the library's
	cache      string // folder of the programs, empty: pgbin.CacheDir
}

func (w embeddedWay) start(ctx context.Context, opts Options) (*Server, error) {
	dir, err := w.programs(ctx)
	if err != nil {
		return nil, err
	}
	return startPrograms(ctx, filepath.Join(dir, "bin"), opts, pgbin.FreePort)
}

// programs returns the folder of the programs, downloaded unless it is there.
func (w embeddedWay) programs(ctx context.Context) (string, error) {
	cache, err := w.cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "postgresql-"+string(embeddedVersion))
	if complete(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	// Everything happens in a folder of this call and is renamed when it is complete, since other processes may
	// download at the same time.
	work, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return "", err
	}
	done := make(chan error, 1)
	go func() { // the library knows no context
		err := w.download(work)
		if err == nil {
			err = os.Rename(filepath.Join(work, "programs"), dir)
			if complete(dir) {
				err = nil // another process was first
			}
		}
		done <- errors.Join(err, os.RemoveAll(work))
	}()
	select {
	case err := <-done:
		return dir, err
	case <-ctx.Done():
		return "", fmt.Errorf("downloading PostgreSQL %s: %w", embeddedVersion, ctx.Err())
	}
}

func (w embeddedWay) cacheDir() (string, error) {
	if w.cache != "" {
		return w.cache, nil
	}
	return pgbin.CacheDir()
}

// download leaves the programs in work/programs. The library only fetches as a part of its Start: the data directory
// that it is given passes for a finished one, so that it runs no initdb, but holds no cluster, so that its server ends
// at once. That failure is what success looks like, once the programs are there.
func (w embeddedWay) download(work string) error {
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	data := filepath.Join(work, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(embeddedVersion), 0o600); err != nil {
		return err
	}
	port, err := pgbin.FreePort()
	if err != nil {
		return err
	}
	programs := filepath.Join(work, "programs")
	config := embeddedpostgres.DefaultConfig().
		Version(embeddedVersion).
		Port(uint32(port)).
		CachePath(filepath.Join(work, "archive")).
		RuntimePath(filepath.Join(work, "runtime")).
		BinariesPath(programs).
		DataPath(data).
		Logger(io.Discard)
	if w.repository != "" {
		config = config.BinaryRepositoryURL(w.repository)
	}
	err = embeddedpostgres.NewDatabase(config).Start()
	if complete(programs) {
		return nil
	}
	if err == nil {
		err = errors.New("the archive holds no server programs")
	}
	return fmt.Errorf("downloading PostgreSQL %s: %w", embeddedVersion, err)
}

func complete(dir string) bool {
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		if _, err := os.Stat(filepath.Join(dir, "bin", name)); err != nil {
			return false
		}
	}
	return true
}
