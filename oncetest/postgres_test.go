package oncetest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

func requireState(t *testing.T, err error, code string) {
	t.Helper()
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, code, pgErr.Code, pgErr.Message)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	db := Postgres(t)

	t.Run("Migrated", func(t *testing.T) {
		t.Parallel()
		var dirty bool
		require.NoError(t, db.Pool.QueryRow(t.Context(), "SELECT dirty FROM once.schema_migrations").Scan(&dirty))
		require.False(t, dirty)
	})
	t.Run("UnqualifiedNamesFail", func(t *testing.T) {
		t.Parallel()
		_, err := db.Pool.Exec(t.Context(), "CREATE TABLE unqualified ()")
		requireState(t, err, "3F000") // no schema has been selected
		_, err = db.Pool.Exec(t.Context(), "CREATE TABLE public.qualified ()")
		require.NoError(t, err)
		_, err = db.Pool.Exec(t.Context(), "SELECT FROM qualified")
		requireState(t, err, "42P01") // undefined table
	})
	t.Run("Owner", func(t *testing.T) {
		t.Parallel()
		const sql = `
SELECT r.rolsuper, d.datdba = r.oid, n.nspowner = r.oid
FROM pg_roles r, pg_database d, pg_namespace n
WHERE r.rolname = session_user AND d.datname = current_database() AND n.nspname = 'once'`
		var super, ownsDatabase, ownsSchema bool
		require.NoError(t, db.Pool.QueryRow(t.Context(), sql).Scan(&super, &ownsDatabase, &ownsSchema))
		require.False(t, super)
		require.True(t, ownsDatabase)
		require.True(t, ownsSchema)
	})
	t.Run("URLs", func(t *testing.T) {
		t.Parallel()
		var name string
		require.NoError(t, db.Pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name))
		require.Equal(t, name, query[string](t, db.URL, "SELECT current_database()"))
		require.Equal(t, name, query[string](t, db.AdminURL, "SELECT current_database()"))
		require.Equal(t, ownerRole, query[string](t, db.URL, "SELECT session_user::text"))
		require.True(t, query[bool](t, db.AdminURL, "SELECT rolsuper FROM pg_roles WHERE rolname = session_user"))
	})
	t.Run("OfItsOwn", func(t *testing.T) {
		t.Parallel()
		other := Postgres(t)
		for _, db := range []*DB{db, other} {
			_, err := db.Pool.Exec(t.Context(), "CREATE TABLE public.same_name ()")
			require.NoError(t, err)
		}
	})
}

func TestPostgresDropsItsDatabase(t *testing.T) {
	t.Parallel()
	server := localServer(t)
	var name string
	r := record(t, func(r *recorder) {
		db := newDB(r, server)
		name = db.Pool.Config().ConnConfig.Database
		require.NoError(t, db.Pool.Ping(t.Context()))
		r.Errorf("a failure")
	})
	require.NotEmpty(t, name)
	require.False(t, databaseExists(t, server, name))
	require.Equal(t, "a failure", r.text(), "nobody can look into a server that ends with the process")
}

func TestPostgresKeepsAFailedDatabase(t *testing.T) {
	t.Parallel()
	server, err := findURL(t.Context(), localServer(t).URL())
	require.NoError(t, err)
	names := map[bool]string{}
	for _, fail := range []bool{false, true} {
		r := record(t, func(r *recorder) {
			db := newDB(r, server)
			names[fail] = db.Pool.Config().ConnConfig.Database
			r.failed = fail
		})
		require.Equal(t, fail, databaseExists(t, server, names[fail]))
		if fail {
			require.Contains(t, r.text(), "its database stays: postgres://"+ownerRole)
			require.Contains(t, r.text(), names[fail])
		} else {
			require.Empty(t, r.text())
		}
	}
	require.NoError(t, dropDB(server, names[true]))
}

// Where the administrator of an existing server is no superuser.
func TestPostgresWithoutSuperuser(t *testing.T) {
	t.Parallel()
	existing := startLocal(t, Options{}) // where no superuser has made the owner role
	execute(t, existing.URL(), "CREATE ROLE admin LOGIN CREATEDB CREATEROLE")
	adminURL, err := withDatabase(existing.URL(), "postgres", url.User("admin"))
	require.NoError(t, err)
	server, err := findURL(t.Context(), adminURL)
	require.NoError(t, err)
	r := record(t, func(r *recorder) {
		db := newDB(r, server)
		require.NoError(t, db.Pool.Ping(t.Context()))
	})
	require.False(t, r.failed, r.text())
}

func TestMissing(t *testing.T) {
	t.Parallel()
	reason := errors.New("no server: for four reasons")
	for ci, skipped := range map[string]bool{"": true, "false": true, "true": false, "1": false} {
		r := record(t, func(r *recorder) { missing(r, environment{"CI": ci}.get, reason) })
		require.Equal(t, skipped, r.skipped, ci)
		require.Equal(t, !skipped, r.failed, ci)
		require.Equal(t, reason.Error(), r.text())
	}
}

func TestClosePool(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), localServer(t).URL())
	require.NoError(t, err)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	require.False(t, closePool(pool, 50*time.Millisecond))
	conn.Release()
	require.True(t, closePool(pool, closeTimeout))
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	server := localServer(t)
	template := "pgonce_template_" + randomName()
	// What a process leaves that dies while it makes the template.
	execute(t, server.URL(), "CREATE DATABASE "+template)
	stale, err := withDatabase(server.URL(), template, nil)
	require.NoError(t, err)
	execute(t, stale, "CREATE SCHEMA once CREATE TABLE once.schema_migrations (half_made bool)")

	// Test processes that share a server: each has a session of its own.
	var calls sync.WaitGroup
	errs := make(chan error, 6)
	for range cap(errs) {
		calls.Go(func() {
			errs <- withConn(t.Context(), server.URL(), func(conn *pgx.Conn) error {
				return ensureTemplate(t.Context(), conn, server.URL(), template)
			})
		})
	}
	calls.Wait()
	for range cap(errs) {
		require.NoError(t, <-errs)
	}

	clone := "pgonce_test_" + randomName()
	execute(t, server.URL(), fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", clone, template))
	cloneURL, err := withDatabase(server.URL(), clone, nil)
	require.NoError(t, err)
	require.False(t, query[bool](t, cloneURL, "SELECT dirty FROM once.schema_migrations"))

	err = withConn(context.Background(), stale, func(*pgx.Conn) error { return nil })
	requireState(t, err, "55000") // nobody may connect to the template
}

func TestTemplateName(t *testing.T) {
	t.Parallel()
	name := func(files fstest.MapFS) string {
		name, err := hashName(files)
		require.NoError(t, err)
		return name
	}
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	base := name(fstest.MapFS{"m/1.sql": file("a"), "m/2.sql": file("b")})
	require.Equal(t, base, name(fstest.MapFS{"m/2.sql": file("b"), "m/1.sql": file("a")}))
	require.NotEqual(t, base, name(fstest.MapFS{"m/1.sql": file("a"), "m/2.sql": file("c")}))
	require.NotEqual(t, base, name(fstest.MapFS{"m/1.sql": file("a"), "m/3.sql": file("b")}))
	require.NotEqual(t, base, name(fstest.MapFS{"m/1.sql": file("a")}))
	actual, err := templateName()
	require.NoError(t, err)
	require.Less(t, len(actual), 64, "PostgreSQL would cut it off")
}
