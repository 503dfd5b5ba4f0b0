package oncetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// startTimeout bounds one way of getting a server when the context has no deadline. It leaves time for a download.
const startTimeout = 3 * time.Minute

// Source is a way of getting a server.
type Source string

// The ways, in the order in which they are tried.
const (
	SourceURL      Source = "url"      // PGONCE_DATABASE_URL
	SourceLocal    Source = "local"    // server programs on this machine
	SourceDocker   Source = "docker"   // a container
	SourceEmbedded Source = "embedded" // downloaded server programs
)

// Options of [FindServer]. The zero value is a server for tests: quick, and gone with the process. An existing server
// (PGONCE_DATABASE_URL) is taken as it is.
type Options struct {
	// Durable makes a started server write as in production: fsync, synchronous_commit and full_page_writes are on.
	// They are off by default, and a crash of the machine then loses the data.
	Durable bool

	// Keep lets a started server and its data outlive the process. Whoever keeps it ends it, by [Server.Stop] or by
	// SIGINT to [Server.PID], and then removes the directory above [Server.DataDir]. Containers cannot be kept.
	Keep bool

	// Settings are further settings of a started server, by name. They win over the defaults: 200 connections, 20
	// prepared transactions, wal_level logical, UTC, and what Durable says.
	Settings map[string]string
}

// Server is a PostgreSQL server. Its methods may be called concurrently.
type Server struct {
	source  Source
	url     string
	pid     int
	dataDir string
	stop    func() error
}

// URL is a connection string for an administrator: a superuser, in the database postgres, of a started server; what
// PGONCE_DATABASE_URL says of an existing one.
func (s *Server) URL() string { return s.url }

// Source tells how the server was found.
func (s *Server) Source() Source { return s.source }

// PID is the process id of the server, 0 unless it was started from programs (local, embedded).
func (s *Server) PID() int { return s.pid }

// DataDir is the server's data directory, empty unless it was started from programs (local, embedded).
func (s *Server) DataDir() string { return s.dataDir }

// Stop ends a server that was started here, breaking its connections, and removes its data. It does nothing to an
// existing server, nor when it is called again.
func (s *Server) Stop() error { return s.stop() }

// FindServer returns a running PostgreSQL server, version 14 or later, from the first of the ways in the package
// comment that works. What was asked for by name and fails (PGONCE_DATABASE_URL, PGONCE_PG_BINDIR, PGONCE_TEST_SERVER)
// is not replaced by the next way. The error names all four, and says of each why it gave no server.
//
// A started server ends when the process does; call [Server.Stop] to end it earlier. When ctx ends, FindServer
// returns, and what it had begun is undone in the background.
func FindServer(ctx context.Context, opts Options) (*Server, error) {
	return newFinder(os.Getenv).find(ctx, opts)
}

// finder tries ways in their order.
type finder struct {
	only string // forces one way
	ways []way
}

type way struct {
	source Source
	start  func(ctx context.Context, opts Options) (*Server, error)
}

func newFinder(getenv func(string) string) *finder {
	return &finder{
		only: getenv("PGONCE_TEST_SERVER"),
		ways: []way{
			{SourceURL, urlWay{url: getenv("PGONCE_DATABASE_URL")}.start},
			{SourceLocal, newLocalWay(getenv("PGONCE_PG_BINDIR")).start},
			{SourceDocker, dockerWay{image: getenv("PGONCE_TEST_IMAGE")}.start},
			{SourceEmbedded, embeddedWay{repository: getenv("PGONCE_EMBEDDED_URL")}.start},
		},
	}
}

// finalError says that the way was asked for by name: the ways after it are not tried.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

func (f *finder) find(ctx context.Context, opts Options) (*Server, error) {
	names := make([]string, len(f.ways))
	for i, w := range f.ways {
		names[i] = string(w.source)
	}
	if f.only != "" && !slices.Contains(names, f.only) {
		return nil, fmt.Errorf("oncetest: PGONCE_TEST_SERVER is %q, not one of %s", f.only, strings.Join(names, ", "))
	}

	failed := &notFoundError{}
	skip := ""
	for _, w := range f.ways {
		if f.only != "" && f.only != string(w.source) {
			failed.add(w.source, errors.New("not tried: PGONCE_TEST_SERVER is "+f.only))
			continue
		}
		if skip != "" {
			failed.add(w.source, errors.New(skip))
			continue
		}
		server, err := f.try(ctx, w, opts)
		if err == nil {
			return server, nil
		}
		failed.add(w.source, err)
		if errors.As(err, new(finalError)) || ctx.Err() != nil {
			skip = fmt.Sprintf("not tried after %s", w.source)
		}
	}
	return nil, failed
}

func (f *finder) try(ctx context.Context, w way, opts Options) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	server, err := w.start(ctx, opts)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, err
	}
	server.source = w.source
	server.stop = sync.OnceValue(server.stop)
	return server, nil
}

// notFoundError collects why each way failed.
type notFoundError struct {
	lines []string
	errs  []error
}

func (e *notFoundError) add(source Source, err error) {
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "\n    ")
	e.lines = append(e.lines, fmt.Sprintf("\n  %s: %s", source, text))
	e.errs = append(e.errs, err)
}

func (e *notFoundError) Error() string {
	return "oncetest: no PostgreSQL server:" + strings.Join(e.lines, "")
}

func (e *notFoundError) Unwrap() []error { return e.errs }
