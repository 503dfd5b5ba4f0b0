//go:build linux

package fault

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServerKilled(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for range *rounds {
		l := s.start()
		for range 2 {
			l.await(sliceAcks)
			s.kill()
		}
		l.await(sliceAcks)
		l.stop()
		s.verify()
	}
	s.finish()
}

// kill kills the whole server, and starts it again.
func (s *shop) kill() {
	s.t.Helper()
	require.NoError(s.t, s.Kill())
	require.NoError(s.t, s.Start())
	s.faults++
}

// A killed backend takes the other sessions with it: the server cannot trust its shared memory any more.
func TestBackendKilled(t *testing.T) {
	t.Parallel()
	long(t)
	s := newShop(t)
	victims := []string{
		"application_name = 'load' AND state <> 'idle' AND query ILIKE '%claim%'",
		"application_name = 'load' AND state <> 'idle' AND query ILIKE '%complete%'",
		"application_name = 'load' AND state = 'active' AND query ILIKE 'commit%'",
		"application_name = 'load' AND state <> 'idle' AND query ILIKE '%ledger%'",
	}
	for range *rounds {
		l := s.start()
		for _, victim := range victims {
			l.await(sliceAcks / 2)
			s.killSession(victim)
		}
		l.await(sliceAcks)
		l.stop()
		s.verify()
	}
	s.finish()
}

// killSession kills the process of one of the sessions that a condition on pg_stat_activity finds.
func (s *shop) killSession(where string) {
	s.t.Helper()
	eventually(s.t, func() bool {
		pids := s.sessions(where)
		killed, err := s.KillProcess(pids[rand.N(len(pids))])
		return err == nil && killed
	}, "no session was killed")
	s.faults++
}
