package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/migrate"
	"github.com/pgonce/pgonce/oncetest"
	"github.com/pgonce/pgonce/sql/schema"
)

// emptyDB is a database without the schema, owned by the role that pools connect as.
type emptyDB struct {
	url   string
	admin *pgx.Conn
}

func newEmptyDB(t *testing.T) *emptyDB {
	t.Helper()
	migrated := oncetest.Postgres(t)
	var owner, from string
	err := migrated.Pool.QueryRow(t.Context(), "SELECT current_user::text, current_database()::text").Scan(&owner, &from)
	require.NoError(t, err)
	server := connect(t, migrated.AdminURL)
	name := from + "_empty"
	_, err = server.Exec(t.Context(), fmt.Sprintf("CREATE DATABASE %s TEMPLATE template0 OWNER %s", name, owner))
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := server.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
	})
	rename := func(conn string) string {
		u, err := url.Parse(conn)
		require.NoError(t, err)
		u.Path = name
		return u.String()
	}
	return &emptyDB{url: rename(migrated.URL), admin: connect(t, rename(migrated.AdminURL))}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// pool connects with an empty search_path. When the test ends, no connection of it may be in use.
func (db *emptyDB) pool(t *testing.T, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.url)
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["search_path"] = ""
	for _, f := range change {
		f(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Zero(t, pool.Stat().AcquiredConns(), "a connection was not given back")
		pool.Close()
	})
	return pool
}

func (db *emptyDB) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := db.admin.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func (db *emptyDB) exists(t *testing.T, relation string) bool {
	t.Helper()
	return one[bool](t, db.admin, "SELECT to_regclass($1) IS NOT NULL", relation)
}

// locks counts the advisory locks that are held, or waited for, in the database.
func (db *emptyDB) locks(t *testing.T, granted bool) int {
	t.Helper()
	return one[int](t, db.admin, `
SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
WHERE l.locktype = 'advisory' AND d.datname = current_database() AND l.granted = $1`, granted)
}

func one[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

func status(t *testing.T, pool *pgxpool.Pool) migrate.State {
	t.Helper()
	s, err := migrate.Status(t.Context(), pool)
	require.NoError(t, err)
	return s
}

// files are migrations, by number.
func files(sql map[int]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for n, text := range sql {
		fsys[fmt.Sprintf("migrations/%06d_test.up.sql", n)] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestUp(t *testing.T) {
	t.Parallel()
	db := newEmptyDB(t)
	pool := db.pool(t)
	before := status(t, pool)
	require.Zero(t, before.Version)
	require.Positive(t, before.Latest)
	require.False(t, before.Dirty)

	for range 2 { // the second has nothing to do
		require.NoError(t, migrate.Up(t.Context(), pool))
		require.Equal(t, migrate.State{Version: before.Latest, Latest: before.Latest}, status(t, pool))
		require.Zero(t, db.locks(t, true))
	}
	require.NoError(t, pool.Ping(t.Context()), "the pool must stay open")
}

// One connection is enough, and processes that start together do not disturb each other.
func TestUpConcurrently(t *testing.T) {
	t.Parallel()
	db := newEmptyDB(t)
	single := func(c *pgxpool.Config) { c.MaxConns = 1 }
	pools := []*pgxpool.Pool{db.pool(t, single), db.pool(t), db.pool(t)}
	errs := make(chan error, 9)
	var calls sync.WaitGroup
	for i := range cap(errs) {
		calls.Go(func() { errs <- migrate.Up(t.Context(), pools[i%len(pools)]) })
	}
	calls.Wait()
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	s := status(t, pools[0])
	require.Equal(t, s.Latest, s.Version)
	require.Zero(t, db.locks(t, true))
}

func TestUpAfterInstallScript(t *testing.T) {
	t.Parallel()
	db := newEmptyDB(t)
	pool := db.pool(t)
	_, err := pool.Exec(t.Context(), schema.Install)
	require.NoError(t, err)
	s := status(t, pool)
	require.Equal(t, s.Latest, s.Version)

	const row = "SELECT ctid::text || ' ' || xmin::text FROM once.schema_migrations"
	before := one[string](t, db.admin, row)
	require.NoError(t, migrate.Up(t.Context(), pool))
	require.Equal(t, before, one[string](t, db.admin, row))
}

// A service that only checks needs no right to change anything.
func TestUpWithNothingToDoNeedsNoPrivileges(t *testing.T) {
	t.Parallel()
	db := newEmptyDB(t)
	require.NoError(t, migrate.Up(t.Context(), db.pool(t)))
	role := "reader_" + one[string](t, db.admin, "SELECT current_database()::text")
	db.exec(t, "CREATE ROLE "+role)
	t.Cleanup(func() {
		_, err := db.admin.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		require.NoError(t, err)
	})
	db.exec(t, "GRANT USAGE ON SCHEMA once TO "+role)
	db.exec(t, "GRANT SELECT ON once.schema_migrations TO "+role)
	db.url = db.admin.Config().ConnString() // the administrator may be any role
	reader := db.pool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["role"] = role })
	_, err := reader.Exec(t.Context(), "DELETE FROM once.schema_migrations")
	requireCode(t, err, "42501") // insufficient privilege
	require.NoError(t, migrate.Up(t.Context(), reader))
}

func TestUpWithoutPrivileges(t *testing.T) {
	t.Parallel()
	db := newEmptyDB(t)
	db.exec(t, "ALTER DATABASE "+one[string](t, db.admin, "SELECT quote_ident(current_database())")+" OWNER TO CURRENT_USER")
	err := migrate.Up(t.Context(), db.pool(t))
	requireCode(t, err, "42501") // insufficient privilege
	require.False(t, db.exists(t, "once.schema_migrations"))
	require.Zero(t, db.locks(t, true))
}

func requireCode(t *testing.T, err error, code string) *pgconn.PgError {
	t.Helper()
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, code, pgErr.Code)
	return pgErr
}

func TestUpNewerSchema(t *testing.T) {
	t.Parallel()
	db := newEmptyDB(t)
	pool := db.pool(t)
	require.NoError(t, migrate.Up(t.Context(), pool))
	db.exec(t, "UPDATE once.schema_migrations SET version = 4711")
	const row = "SELECT ctid::text || ' ' || xmin::text FROM once.schema_migrations"
	before := one[string](t, db.admin, row)

	err := migrate.Up(t.Context(), pool)
	var newer *migrate.NewerError
	require.ErrorAs(t, err, &newer)
	require.EqualValues(t, 4711, newer.Version)
	require.Equal(t, status(t, pool).Latest, newer.Latest)
	require.ErrorContains(t, err, fmt.Sprintf("the schema is at version 4711, this release of pgonce knows versions up to %d",
		newer.Latest))
	require.Equal(t, before, one[string](t, db.admin, row))
}

func TestUpFailure(t *testing.T) {
	t.Parallel()
	db := newEmptyDB(t)
	pool := db.pool(t)
	good := "CREATE TABLE once.a ()"
	bad := "CREATE TABLE once.b ();\n\nSELECT 1/0"
	sql := map[int]string{1: good, 3: bad, 4: "CREATE TABLE once.c ()"}

	err := migrate.UpFS(t.Context(), pool, files(sql))
	requireCode(t, err, "22012") // division by zero
	var dirty *migrate.DirtyError
	require.ErrorAs(t, err, &dirty)
	require.EqualValues(t, 3, dirty.Version)
	require.Equal(t, 1, dirty.Force)
	require.ErrorContains(t, err, "version 3 failed: ERROR: division by zero")
	require.NotContains(t, err.Error(), "CREATE TABLE", "the text of the migration does not belong into the error")
	require.True(t, db.exists(t, "once.a"))
	require.False(t, db.exists(t, "once.b"), "what failed is rolled back")
	require.False(t, db.exists(t, "once.c"))
	require.Zero(t, db.locks(t, true))
	s := status(t, pool)
	require.EqualValues(t, 3, s.Version)
	require.True(t, s.Dirty)

	sql[3] = "CREATE TABLE once.b ()"
	err = migrate.UpFS(t.Context(), pool, files(sql))
	dirty = nil
	require.ErrorAs(t, err, &dirty)
	require.EqualValues(t, 3, dirty.Version)
	require.Equal(t, 1, dirty.Force)
	require.NoError(t, dirty.Err)
	require.False(t, db.exists(t, "once.b"), "nothing runs on a dirty schema")

	force := between(t, err.Error(), "force version 1 (", ")")
	require.Equal(t, "UPDATE once.schema_migrations SET version = 1, dirty = false", force)
	db.exec(t, force)
	require.NoError(t, migrate.UpFS(t.Context(), pool, files(sql)))
	require.True(t, db.exists(t, "once.c"))
}

func TestUpFailureOfTheFirst(t *testing.T) {
	t.Parallel()
	db := newEmptyDB(t)
	pool := db.pool(t)
	err := migrate.UpFS(t.Context(), pool, files(map[int]string{1: "SELECT 1;\nSELECT nonsense"}))
	require.Equal(t, int32(18), requireCode(t, err, "42703").Position) // undefined column
	require.ErrorContains(t, err, "line 2: ")
	var dirty *migrate.DirtyError
	require.ErrorAs(t, err, &dirty)
	require.Equal(t, -1, dirty.Force)
	db.exec(t, between(t, err.Error(), "force version -1 (", ")"))
	require.NoError(t, migrate.UpFS(t.Context(), pool, files(map[int]string{1: "SELECT 1"})))
}

func between(t *testing.T, text, before, after string) string {
	t.Helper()
	_, text, ok := strings.Cut(text, before)
	require.True(t, ok)
	text, _, ok = strings.Cut(text, after)
	require.True(t, ok)
	return text
}

func TestUpContextEndsWhileWaiting(t *testing.T) {
	t.Parallel()
	db := newEmptyDB(t)
	pool := db.pool(t)
	text, err := database.GenerateAdvisoryLockId(db.admin.Config().Database, "once", "schema_migrations")
	require.NoError(t, err)
	id, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	db.exec(t, "SELECT pg_advisory_lock($1)", id)

	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- migrate.Up(ctx, pool) }()
	require.Eventually(t, func() bool { return db.locks(t, false) == 1 }, 20*time.Second, 5*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-result, context.Canceled)
	require.False(t, db.exists(t, "once.schema_migrations"))

	db.exec(t, "SELECT pg_advisory_unlock($1)", id)
	require.NoError(t, migrate.Up(t.Context(), pool))
}

// A migration that has begun is finished, the next is not begun.
func TestUpContextEndsWhileMigrating(t *testing.T) {
	t.Parallel()
	db := newEmptyDB(t)
	pool := db.pool(t)
	sql := files(map[int]string{
		1: "SELECT pg_advisory_xact_lock(42); CREATE TABLE once.a ()",
		2: "SELECT pg_advisory_xact_lock(43); CREATE TABLE once.b ()",
	})
	up := func(lock int) error {
		db.exec(t, "SELECT pg_advisory_lock($1)", lock)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- migrate.UpFS(ctx, pool, sql) }()
		require.Eventually(t, func() bool { return db.locks(t, false) == 1 }, 20*time.Second, 5*time.Millisecond)
		cancel()
		select {
		case err := <-result:
			return errors.Join(errors.New("it did not wait for the migration"), err)
		case <-time.After(50 * time.Millisecond):
		}
		db.exec(t, "SELECT pg_advisory_unlock($1)", lock)
		return <-result
	}

	err := up(42)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "stopped at version 1 of 2")
	require.True(t, db.exists(t, "once.a"))
	require.False(t, db.exists(t, "once.b"))
	require.False(t, status(t, pool).Dirty)

	require.NoError(t, up(43), "all is done, whatever became of the context")
	require.True(t, db.exists(t, "once.b"))
}

func TestUpNoServer(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none?sslmode=disable")
	require.NoError(t, err)
	defer pool.Close()
	require.ErrorContains(t, migrate.Up(t.Context(), pool), "connection refused")
	_, err = migrate.Status(t.Context(), pool)
	require.ErrorContains(t, err, "connection refused")
	require.Zero(t, pool.Stat().AcquiredConns())
}

func TestUpNoMigrations(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, migrate.UpFS(t.Context(), nil, fstest.MapFS{}), "reading the embedded migrations")
}
