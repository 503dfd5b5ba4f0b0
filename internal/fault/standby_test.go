//go:build linux

package fault

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/cluster"
)

// standby makes a streaming standby of the shop's server and starts it.
func (s *shop) standby() *cluster.Cluster {
	s.t.Helper()
	c, err := s.Standby("standby")
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, c.Remove()) })
	require.NoError(s.t, c.Start())
	awaitTrue(s.t, s.pool, "the standby does not follow", "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')")
	return c
}

// failover kills the primary and goes on with the standby.
func (s *shop) failover(standby *cluster.Cluster) {
	s.t.Helper()
	require.NoError(s.t, s.Kill())
	require.NoError(s.t, standby.Promote())
	s.faults++
}

// With a synchronous standby a failover loses nothing that was acknowledged.
func TestSynchronousFailover(t *testing.T) {
	t.Parallel()
	long(t)
	s := newShop(t)
	standby := s.standby()
	require.NoError(t, s.Configure("synchronous_standby_names = 'standby'"))
	_, err := s.pool.Exec(context.Background(), "SELECT pg_reload_conf()")
	require.NoError(t, err)
	awaitTrue(t, s.pool, "the standby is not synchronous", "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")

	l := s.start()
	l.await(3 * sliceAcks)
	s.failover(standby)
	l.stop()
	s.moveTo(standby, "shop")
	s.verify()
	l = s.start()
	l.await(sliceAcks)
	l.stop()
	s.verify()
	s.finish()
}

// With an asynchronous standby a failover may lose the last acknowledged operations. It loses a key with its row or
// neither, and to retry brings them back once.
func TestAsynchronousFailover(t *testing.T) {
	t.Parallel()
	long(t)
	s := newShop(t)
	standby := s.standby()
	l := s.start()
	l.await(2 * sliceAcks)
	// The standby is cut off, so that there is something to lose.
	other := newPool(t, standby.URL("shop"))
	for _, sql := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
		_, err := other.Exec(context.Background(), sql)
		require.NoError(t, err)
	}
	awaitTrue(t, other, "the standby still receives", "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")
	l.await(2 * sliceAcks)
	s.failover(standby)
	l.stop()
	s.moveTo(standby, "shop")

	lost := s.rec.forgiveLost(t, s.pool)
	require.Positive(t, lost, "nothing was lost, so that nothing was tried")
	require.Empty(t, s.wrong(false), "lost otherwise than together")
	s.retryAll()
	require.Empty(t, s.wrong(true))
	s.maintainToTheEnd()
	require.Empty(t, s.wrong(true))
	t.Logf("%d of %d acknowledged operations were lost, each with its row", lost, s.rec.totalKeys)
}
