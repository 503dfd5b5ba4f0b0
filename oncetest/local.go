package oncetest

import (
	"context"
	"fmt"

	"github.com/pgonce/pgonce/internal/pgbin"
)

// localWay starts the server programs of this machine.
type localWay struct {
	binDir   string // the only folder allowed, if set
	freePort func() (int, error)
}

func newLocalWay(binDir string) localWay { return localWay{binDir, pgbin.FreePort} }

func (w localWay) start(ctx context.Context, opts Options) (*Server, error) {
	dir, err := w.find(ctx)
	if err != nil {
		return nil, err
	}
	return startPrograms(ctx, dir, opts, w.freePort)
}

// find returns the folder of the programs.
func (w localWay) find(ctx context.Context) (string, error) {
	if w.binDir == "" {
		return pgbin.NewFinder().Find(ctx)
	}
	if _, err := pgbin.Check(ctx, w.binDir); err != nil {
		return "", finalError{fmt.Errorf("PGONCE_PG_BINDIR: %w", err)}
	}
	return w.binDir, nil
}
