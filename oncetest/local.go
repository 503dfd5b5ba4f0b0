package oncetest

import (
	"context"
	"os/exec"
)

// localWay starts the server programs of this machine.
type localWay struct {
	bins     binDirFinder
	freePort func() (int, error)
}

func newLocalWay(binDir string) localWay {
	return localWay{
		bins:     binDirFinder{fixed: binDir, globs: binDirGlobs, lookPath: exec.LookPath},
		freePort: freePort,
	}
}

func (w localWay) start(ctx context.Context, opts Options) (*Server, error) {
	dir, err := w.bins.find(ctx)
	if err != nil {
		return nil, err
	}
	return startPrograms(ctx, dir, opts, w.freePort)
}
