package oncetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce/migrate"
	"github.com/pgonce/pgonce/sql/schema"
)

const (
	// ownerRole owns the databases of tests. Roles belong to the whole cluster, so it is one role for all of them.
	ownerRole     = "pgonce_test_owner"
	ownerPassword = "pgonce_test_owner"

	// templateLock is the advisory lock under which role and template are made: "pgonce" in ASCII.
	templateLock = 0x70676f6e6365
)

// templateName changes with the schema, so that no process ever uses the template of another release.
var templateName = sync.OnceValues(func() (string, error) {
	name, err := hashName(schema.Migrations)
	return "pgonce_template_" + name, err
})

func hashName(fsys fs.FS) (string, error) {
	hash := sha256.New()
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(fsys, path)
		fmt.Fprintf(hash, "%s %d\n%s", path, len(text), text)
		return err
	})
	return fmt.Sprintf("%x", hash.Sum(nil)[:8]), err
}

// cloneTemplate creates a database from the template, and makes the template if this is the first test of its schema
// on the server.
func cloneTemplate(ctx context.Context, adminURL, name string) error {
	return withConn(ctx, adminURL, func(conn *pgx.Conn) error {
		template, err := templateName()
		if err != nil {
			return err
		}
		if err := ensureTemplate(ctx, conn, adminURL, template); err != nil {
			return fmt.Errorf("making the template database: %w", err)
		}
		strategy, err := copyStrategy(ctx, conn)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s OWNER %s%s", pgx.Identifier{name}.Sanitize(),
			pgx.Identifier{template}.Sanitize(), ownerRole, strategy))
		return err
	})
}

// copyStrategy is the quickest way to copy a database. Copying files takes two checkpoints, which cost nearly nothing
// without fsync: 25 ms in all, where the default of PostgreSQL 15 and later, which writes the pages to the WAL, took
// 150 ms and more. PostgreSQL 14 always copies files.
func copyStrategy(ctx context.Context, conn *pgx.Conn) (string, error) {
	var quick bool
	err := conn.QueryRow(ctx, "SELECT current_setting('fsync') = 'off' AND "+
		"current_setting('server_version_num')::int >= 150000").Scan(&quick)
	if !quick {
		return "", err
	}
	return " STRATEGY FILE_COPY", err
}

// ensureTemplate makes the template. is_template, which is set last, tells a finished one from one whose process died.
func ensureTemplate(ctx context.Context, conn *pgx.Conn, adminURL, template string) error {
	finished := func() (bool, error) {
		var is bool
		err := conn.QueryRow(ctx, "SELECT datistemplate FROM pg_catalog.pg_database WHERE datname = $1", template).Scan(&is)
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return is, err
	}
	if is, err := finished(); err != nil || is {
		return err
	}
	// Other processes may use the same server. The lock goes with the connection, which ends with this call.
	if _, err := conn.Exec(ctx, "SELECT pg_catalog.pg_advisory_lock($1)", int64(templateLock)); err != nil {
		return err
	}
	defer func() {
		_, _ = conn.Exec(context.WithoutCancel(ctx), "SELECT pg_catalog.pg_advisory_unlock($1)", int64(templateLock))
	}()
	if is, err := finished(); err != nil || is {
		return err
	}
	if err := createOwner(ctx, conn); err != nil {
		return err
	}
	quoted := pgx.Identifier{template}.Sanitize()
	for _, sql := range []string{
		"DROP DATABASE IF EXISTS " + quoted + " WITH (FORCE)",
		"CREATE DATABASE " + quoted + " TEMPLATE template0 OWNER " + ownerRole,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := migrateTemplate(ctx, adminURL, template); err != nil {
		return err
	}
	// Nobody may connect: a database that somebody is connected to cannot be copied.
	_, err := conn.Exec(ctx, "ALTER DATABASE "+quoted+" IS_TEMPLATE true ALLOW_CONNECTIONS false")
	return err
}

// createOwner creates the role unless it is there, and lets an administrator who is no superuser act for it.
func createOwner(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, fmt.Sprintf("CREATE ROLE %s LOGIN NOSUPERUSER PASSWORD '%s'", ownerRole, ownerPassword))
	var pgErr *pgconn.PgError
	if err != nil && !(errors.As(err, &pgErr) && pgErr.Code == "42710") { // duplicate_object
		return err
	}
	var member bool
	err = conn.QueryRow(ctx, "SELECT pg_catalog.pg_has_role($1, 'USAGE')", ownerRole).Scan(&member)
	if err != nil || member {
		return err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("GRANT %s TO CURRENT_USER", ownerRole))
	return err
}

func migrateTemplate(ctx context.Context, adminURL, template string) error {
	ownerURL, err := withDatabase(adminURL, template, url.UserPassword(ownerRole, ownerPassword))
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, ownerURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	return migrate.Up(ctx, pool)
}
