//go:build linux

package fault

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/archive"
)

// diskSize is enough for a cluster and the load of a test, in the form that mount takes.
const diskSize = "160m"

// disk is the mount point of a small file system.
func disk(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgonce-disk-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.Remove(dir)) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=1777,size="+diskSize); err != nil {
		t.Skip("no file system can be mounted: " + err.Error()) // not every CI may
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}

// fill takes all the space there is, and returns what gives it back.
func fill(t testing.TB, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	require.NoError(t, err)
	block := bytes.Repeat([]byte{1}, 1<<16)
	for len(block) > 0 {
		if _, err := f.Write(block); err != nil {
			require.True(t, errors.Is(err, syscall.ENOSPC), "%v", err)
			block = block[:len(block)/2]
		}
	}
	require.NoError(t, f.Close())
	return func() { require.NoError(t, os.Remove(name)) }
}

// The disk of the server is full for a while. Claims, completions and rotations fail, and some are not acknowledged; once
// there is space again everything converges. The server may have given up meanwhile, for want of space for its WAL.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	long(t)
	dir := disk(t)
	c := newCluster(t, dir)
	require.NoError(t, c.Start())
	s := open(t, c, sound)
	stopped, refused := 0, 0
	for range *rounds {
		l := s.start()
		l.await(sliceAcks)
		free := fill(t, dir)
		failed := s.rec.failures()
		deadline := time.Now().Add(patience)
		for s.rec.failures() < failed+20 && time.Now().Before(deadline) {
			// The end of the era is as far as time goes: something is due.
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, err := archive.Maintain(ctx, s.pool, archive.Options{Wait: -1, Now: time.Now().Add(time.Duration(s.era*eraSlices+eraSlices-1) * slice)})
			cancel()
			if err != nil {
				refused++
			}
		}
		require.GreaterOrEqual(t, s.rec.failures(), failed+20, "a full disk harms nobody")
		free()
		s.faults++
		if !c.Running() {
			stopped++
			require.NoError(t, c.Start())
		}
		l.await(sliceAcks)
		l.stop()
		s.verify()
	}
	s.finish()
	t.Logf("the server stopped %d times, %d calls of maintenance failed", stopped, refused)
}
