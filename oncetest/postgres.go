package oncetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// setupTimeout bounds what a test does to get its database, but for starting the server.
	setupTimeout = time.Minute

	// closeTimeout bounds the wait for connections that a test has not given back.
	closeTimeout = 5 * time.Second
)

// DB is the database of one test: the schema of pgonce is installed, nothing else is in it.
type DB struct {
	// Pool connects as the owner of the database and of the schema, who is no superuser. Its search_path is empty, so
	// that a name without its schema fails at once.
	Pool *pgxpool.Pool

	// URL connects as the same role. The search_path is the server's default.
	URL string

	// AdminURL connects to the same database as the superuser, or as the role of PGONCE_DATABASE_URL.
	AdminURL string
}

// Postgres returns a new database for t, a copy of a migrated template, and drops it when t ends. It may be called from
// parallel tests, and more than once.
//
// All tests of a process share one server, which is looked for at the first call: see the package comment. Without a
// server t is skipped, or fails if CI is true in the environment. A test that fails on an existing server
// (PGONCE_DATABASE_URL) leaves its database there and logs its URL.
func Postgres(t testing.TB) *DB {
	t.Helper()
	server, err := shared()
	if err != nil {
		missing(t, os.Getenv, err)
	}
	return newDB(t, server)
}

// shared is the server of this process. It is never stopped: it ends with the process.
var shared = sync.OnceValues(func() (*Server, error) {
	return FindServer(context.Background(), Options{})
})

// missing ends a test that has no server.
func missing(t testing.TB, getenv func(string) string, err error) {
	t.Helper()
	if ci, _ := strconv.ParseBool(getenv("CI")); ci {
		t.Fatal(err)
	}
	t.Skip(err)
}

func newDB(t testing.TB, server *Server) *DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	db, name, err := createDB(ctx, server)
	if err != nil {
		t.Fatalf("oncetest: %v", err)
	}
	t.Cleanup(func() {
		keep := t.Failed() && server.Source() == SourceURL
		if keep {
			t.Logf("oncetest: the test failed, its database stays: %s", db.URL)
		} else if err := dropDB(server, name); err != nil {
			t.Errorf("oncetest: dropping the database: %v", err)
		}
		if !closePool(db.Pool, closeTimeout) {
			t.Errorf("oncetest: the test has not given back all connections of its pool")
		}
	})
	return db
}

func createDB(ctx context.Context, server *Server) (*DB, string, error) {
	name := "pgonce_test_" + randomName()
	if err := cloneTemplate(ctx, server.URL(), name); err != nil {
		return nil, "", err
	}
	db := &DB{}
	var err error
	if db.URL, err = withDatabase(server.URL(), name, url.UserPassword(ownerRole, ownerPassword)); err != nil {
		return nil, "", err
	}
	if db.AdminURL, err = withDatabase(server.URL(), name, nil); err != nil {
		return nil, "", err
	}
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		return nil, "", err
	}
	config.ConnConfig.RuntimeParams["search_path"] = ""
	if db.Pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, "", err
	}
	return db, name, nil
}

// dropDB drops the database with the connections to it.
func dropDB(server *Server, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	return withConn(ctx, server.URL(), func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
		return err
	})
}

// closePool reports whether the pool could be closed in time: it waits for connections that are in use.
func closePool(pool *pgxpool.Pool, timeout time.Duration) bool {
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
		return true
	case <-time.After(timeout):
		return false
	}
}

func withConn(ctx context.Context, url string, f func(conn *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return f(conn)
}

func randomName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x", b)
}
