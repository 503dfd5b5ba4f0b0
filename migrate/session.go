package migrate

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strconv"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	pgxdriver "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	schemaName = "once"
	tableName  = "schema_migrations"

	// unlockTimeout bounds the release of the lock, which is tried even after ctx has ended.
	unlockTimeout = 5 * time.Second
)

// session is one connection of the pool, seen both as a sql.DB, for golang-migrate, and as a pgx.Conn. golang-migrate
// knows no context, so whatever may wait is done on the pgx.Conn beforehand. The locks of one session do not exclude
// each other: once the session holds golang-migrate's lock, golang-migrate does not wait for it.
type session struct {
	connector connector
	db        *sql.DB
}

// connector remembers the connection that it opened, so that the pool gets it back whatever golang-migrate does.
type connector struct {
	driver.Connector

	opened *stdlib.Conn
}

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c.opened = conn.(*stdlib.Conn)
	return conn, nil
}

func openSession(ctx context.Context, pool *pgxpool.Pool) (*session, error) {
	s := &session{connector: connector{Connector: stdlib.GetPoolConnector(pool)}}
	s.db = sql.OpenDB(&s.connector)
	s.db.SetMaxOpenConns(1)
	s.db.SetMaxIdleConns(1)
	if err := s.db.PingContext(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// conn may be used while golang-migrate does nothing.
func (s *session) conn() *pgx.Conn { return s.connector.opened.Conn() }

func (s *session) close() {
	if s.connector.opened != nil {
		_ = s.connector.opened.Close()
	}
	_ = s.db.Close()
}

// lock takes the lock of golang-migrate's driver.
func (s *session) lock(ctx context.Context) (unlock func(), err error) {
	conn := s.conn()
	var name string
	if err := conn.QueryRow(ctx, "SELECT current_database()").Scan(&name); err != nil {
		return nil, err
	}
	text, err := database.GenerateAdvisoryLockId(name, schemaName, tableName)
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", id); err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
		defer cancel()
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", id); err != nil {
			_ = conn.Close(ctx) // never back into the pool with the lock
		}
	}, nil
}

// prepare makes what golang-migrate's driver needs. CREATE SCHEMA IF NOT EXISTS asks for its privilege even when the
// schema exists, hence the look first.
func (s *session) prepare(ctx context.Context) error {
	conn := s.conn()
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT to_regnamespace('once') IS NOT NULL").Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if _, err := conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS once"); err != nil {
			return err
		}
	}
	_, err := conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS once.schema_migrations (
    version bigint  NOT NULL PRIMARY KEY,
    dirty   boolean NOT NULL
)`)
	return err
}

// migrate runs golang-migrate up to version latest. When ctx ends it returns nil after the migration that is running.
// It goes step by step, since golang-migrate's own way to stop early is a data race.
func (s *session) migrate(ctx context.Context, src source.Driver, latest uint) error {
	drv, err := pgxdriver.WithInstance(s.db, &pgxdriver.Config{SchemaName: schemaName, MigrationsTable: tableName})
	if err != nil {
		return cause(err)
	}
	m, err := migrate.NewWithInstance("embedded", src, "pgx5", drv)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		version, _, err := m.Version()
		if err != nil && !errors.Is(err, migrate.ErrNilVersion) {
			return cause(err)
		}
		if version >= latest {
			return nil
		}
		if err := m.Steps(1); err != nil {
			return cause(err)
		}
	}
	return nil
}
