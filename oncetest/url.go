package oncetest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgonce/pgonce/internal/pgbin"
)

// connectTimeout bounds one connection to a server that should be there.
const connectTimeout = 15 * time.Second

// urlWay takes an existing server.
type urlWay struct{ url string }

func (w urlWay) start(ctx context.Context, _ Options) (*Server, error) {
	if w.url == "" {
		return nil, errors.New("PGONCE_DATABASE_URL is not set")
	}
	if err := w.check(ctx); err != nil {
		return nil, finalError{fmt.Errorf("PGONCE_DATABASE_URL: %w", err)}
	}
	return &Server{url: w.url, stop: func() error { return nil }}, nil
}

func (w urlWay) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, w.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var (
		role  string
		admin bool
		major int
	)
	err = conn.QueryRow(ctx, `
SELECT rolname, rolsuper OR rolcreatedb AND rolcreaterole, current_setting('server_version_num')::int / 10000
FROM pg_catalog.pg_roles WHERE rolname = current_user`).Scan(&role, &admin, &major)
	switch {
	case err != nil:
		return err
	case !admin:
		return fmt.Errorf("role %q is neither a superuser nor has CREATEDB and CREATEROLE", role)
	case major < pgbin.MinVersion:
		return fmt.Errorf("the server is version %d, pgonce needs %d or later", major, pgbin.MinVersion)
	}
	return nil
}

// withDatabase returns the connection string for another database of the same server, and for another role unless
// user is nil. It knows both forms, URL and keyword/value.
func withDatabase(conn, database string, user *url.Userinfo) (string, error) {
	if !strings.HasPrefix(conn, "postgres://") && !strings.HasPrefix(conn, "postgresql://") {
		conn += " dbname=" + quoteValue(database) // the last one counts
		if user != nil {
			password, _ := user.Password()
			conn += " user=" + quoteValue(user.Username()) + " password=" + quoteValue(password)
		}
		return conn, nil
	}
	u, err := url.Parse(conn)
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Del("dbname") // parameters win over the path
	u.Path = "/" + database
	if user != nil {
		q.Del("user")
		q.Del("password")
		u.User = user
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func quoteValue(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
