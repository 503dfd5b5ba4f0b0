//go:build linux

package fault

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/cluster"
	"github.com/pgonce/pgonce/internal/pgbin"
	"github.com/pgonce/pgonce/internal/testenv"
	"github.com/pgonce/pgonce/migrate"
)

var rounds = flag.Int("rounds", 3, "rounds of each randomised fault")

func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		children[name]()
		os.Exit(0)
	}
	// The tests wait for servers to start and to recover more than they compute.
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set(strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	}
	code := m.Run()
	if made {
		if c, err := template(); err == nil {
			if err := c.Remove(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
	os.Exit(code)
}

// made tells whether template was called.
var made bool

// template is a stopped cluster with pgonce and a business in the database shop, for copies.
var template = sync.OnceValues(func() (*cluster.Cluster, error) {
	made = true
	dir, err := binDir()
	if err != nil {
		return nil, err
	}
	c, err := cluster.New(dir)
	if err != nil {
		return nil, err
	}
	if err := prepare(c); err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	return c, nil
})

// binDir is the folder of the server programs.
func binDir() (string, error) {
	if dir := os.Getenv("PGONCE_PG_BINDIR"); dir != "" {
		return dir, nil
	}
	return pgbin.NewFinder().Find(context.Background())
}

const business = `
CREATE TABLE public.ledger (key text NOT NULL, value bigint NOT NULL);

-- Some commits take a while, so that a kill can hit them.
CREATE FUNCTION public.linger() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN IF NEW.value % 8 = 0 THEN PERFORM pg_sleep(0.01); END IF; RETURN NULL; END';
CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON public.ledger
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.linger();

SELECT once.create_scope('s', interval '6 hours', interval '5 hours', p_generations => 6, p_archive => 'discard');
`

func prepare(c *cluster.Cluster) error {
	if err := c.Start(); err != nil {
		return err
	}
	if _, err := c.Program("createdb", "--host=127.0.0.1", fmt.Sprintf("--port=%d", c.Port()), "--username=postgres", "shop"); err != nil {
		return err
	}
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, c.URL("shop"))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrate.Up(ctx, pool); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, business, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	pool.Close()
	return c.Stop()
}

// long skips a test of several seconds where only quick ones are wanted.
func long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes several seconds")
	}
}

// newCluster is a copy of the template, in dir, not started.
func newCluster(t testing.TB, dir string) *cluster.Cluster {
	t.Helper()
	if _, err := binDir(); err != nil {
		testenv.Missing(t, err)
	}
	from, err := template()
	require.NoError(t, err)
	c, err := from.Copy(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Remove()) })
	return c
}
