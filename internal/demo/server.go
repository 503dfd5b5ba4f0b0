package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce/migrate"
	"github.com/pgonce/pgonce/oncetest"
)

// Server is a PostgreSQL server for the demo to make its database in.
type Server struct {
	URL  string       // of an administrator
	Note string       // how to end the server if it is kept
	Stop func() error // ends it, unless it is kept; nil if there is nothing to end
}

// findServer takes the server that the tests of pgonce would take, a throwaway one as a rule.
func findServer(ctx context.Context, keep bool) (Server, error) {
	found, err := oncetest.FindServer(ctx, oncetest.Options{Keep: keep})
	if err != nil {
		return Server{}, err
	}
	server := Server{URL: found.URL(), Stop: found.Stop}
	if keep && found.PID() != 0 {
		server.Note = fmt.Sprintf("end it with: kill -INT %d, then: rm -r %s", found.PID(), filepath.Dir(found.DataDir()))
	}
	return server, nil
}

// database is the demo's own database.
type database struct {
	pool   *pgxpool.Pool
	target string // of the proxy
	admin  *pgx.ConnConfig
	name   string
}

const demoSchema = `
CREATE SCHEMA demo;
CREATE TABLE demo.grants (
    grant_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    receiver   text NOT NULL,
    provider   text NOT NULL,
    event      text NOT NULL,
    kind       text NOT NULL,
    note       text NOT NULL,
    coupon     uuid NOT NULL DEFAULT gen_random_uuid(),
    granted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE demo.grants IS 'The business write. Nothing here is unique, so that what is granted twice shows.';
`

// createDatabase makes a database on the server, with pgonce, the demo's table and a scope for each provider.
func createDatabase(ctx context.Context, server Server, used []Provider) (*database, error) {
	admin, err := pgx.ParseConfig(server.URL)
	if err != nil {
		return nil, err
	}
	_, target := pgconn.NetworkAddress(admin.Host, admin.Port)
	db := &database{admin: admin, target: target, name: "pgonce_demo_" + strings.ToLower(rand.Text()[:8])}
	if err := db.asAdmin(ctx, "CREATE DATABASE "+db.name); err != nil {
		return nil, err
	}
	if err := db.prepare(ctx, used); err != nil {
		db.close()
		_ = db.asAdmin(context.WithoutCancel(ctx), "DROP DATABASE "+db.name+" WITH (FORCE)")
		return nil, err
	}
	return db, nil
}

func (db *database) prepare(ctx context.Context, used []Provider) error {
	config, err := pgxpool.ParseConfig(db.admin.ConnString())
	if err != nil {
		return err
	}
	config.ConnConfig.Database = db.name
	if db.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	if err := migrate.Up(ctx, db.pool); err != nil {
		return err
	}
	if _, err := db.pool.Exec(ctx, demoSchema); err != nil {
		return err
	}
	for _, p := range used {
		// Twice the horizon: the window must be longer, and the room costs nothing here.
		_, err := db.pool.Exec(ctx, "SELECT once.create_scope($1, $2, $3)", p.Name(), 2*p.RetryHorizon(), p.RetryHorizon())
		if err != nil {
			return fmt.Errorf("scope %s: %w", p.Name(), err)
		}
	}
	return nil
}

func (db *database) close() {
	if db.pool != nil {
		db.pool.Close()
	}
}

// drop removes the database; close must have been called.
func (db *database) drop(ctx context.Context) error {
	return db.asAdmin(ctx, "DROP DATABASE "+db.name+" WITH (FORCE)")
}

func (db *database) asAdmin(ctx context.Context, sql string) error {
	conn, err := pgx.ConnectConfig(ctx, db.admin)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	_ = conn.Close(context.WithoutCancel(ctx))
	return err
}

// url is a connection string for the database at host:port, or in the directory of a Unix socket.
func (db *database) url(host string, port uint16) string {
	u := url.URL{Scheme: "postgres", Path: "/" + db.name}
	query := url.Values{"sslmode": {"disable"}}
	if strings.HasPrefix(host, string(os.PathSeparator)) {
		query.Set("host", host)
		query.Set("port", strconv.Itoa(int(port)))
	} else {
		u.Host = net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	u.User = url.User(db.admin.User)
	if db.admin.Password != "" {
		u.User = url.UserPassword(db.admin.User, db.admin.Password)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// urlAt is url for an address as a proxy names it.
func (db *database) urlAt(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", err
	}
	return db.url(host, uint16(number)), nil
}

// grants are the coupons of each event that a receiver granted.
func (db *database) grants(ctx context.Context, receiver string) (map[eventKey][]string, error) {
	rows, err := db.pool.Query(ctx, "SELECT provider, event, coupon::text FROM demo.grants WHERE receiver = $1", receiver)
	if err != nil {
		return nil, err
	}
	granted := make(map[eventKey][]string)
	var key eventKey
	var coupon string
	_, err = pgx.ForEachRow(rows, []any{&key.provider, &key.id, &coupon}, func() error {
		granted[key] = append(granted[key], coupon)
		return nil
	})
	return granted, err
}
