package oncetest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// finderOf returns a finder of four ways, which fail with the given errors, and the list of those that were tried.
func finderOf(only string, errs map[Source]error) (*finder, *[]Source) {
	tried := &[]Source{}
	f := &finder{only: only}
	for _, source := range []Source{SourceURL, SourceLocal, SourceDocker, SourceEmbedded} {
		f.ways = append(f.ways, way{source, func(context.Context, Options) (*Server, error) {
			*tried = append(*tried, source)
			if err := errs[source]; err != nil {
				return nil, err
			}
			return &Server{stop: func() error { return nil }}, nil
		}})
	}
	return f, tried
}

func TestFindOrder(t *testing.T) {
	t.Parallel()
	all := []Source{SourceURL, SourceLocal, SourceDocker, SourceEmbedded}
	for _, env := range []environment{{}, {"PGONCE_TEST_SERVER": "docker"}} {
		var sources []Source
		for _, w := range newFinder(env.get).ways {
			sources = append(sources, w.source)
		}
		require.Equal(t, all, sources)
	}
	errs := map[Source]error{}
	for i, source := range all {
		f, tried := finderOf("", errs)
		server, err := f.find(t.Context(), Options{})
		require.NoError(t, err)
		require.Equal(t, source, server.Source())
		require.Equal(t, all[:i+1], *tried)
		errs[source] = errors.New("broken")
	}
}

func TestFindForced(t *testing.T) {
	t.Parallel()
	f, tried := finderOf("docker", nil)
	server, err := f.find(t.Context(), Options{})
	require.NoError(t, err)
	require.Equal(t, SourceDocker, server.Source())
	require.Equal(t, []Source{SourceDocker}, *tried)

	f, _ = finderOf("docker", map[Source]error{SourceDocker: errors.New("no daemon")})
	_, err = f.find(t.Context(), Options{})
	require.EqualError(t, err, `oncetest: no PostgreSQL server:
  url: not tried: PGONCE_TEST_SERVER is docker
  local: not tried: PGONCE_TEST_SERVER is docker
  docker: no daemon
  embedded: not tried: PGONCE_TEST_SERVER is docker`)

	f, tried = finderOf("podman", nil)
	_, err = f.find(t.Context(), Options{})
	require.EqualError(t, err, `oncetest: PGONCE_TEST_SERVER is "podman", not one of url, local, docker, embedded`)
	require.Empty(t, *tried)
}

func TestFindNothing(t *testing.T) {
	t.Parallel()
	errs := map[Source]error{
		SourceURL: errors.New("not set"), SourceLocal: errors.New("no programs"),
		SourceDocker: errors.New("no daemon\nat all"), SourceEmbedded: errors.New("no network"),
	}
	f, _ := finderOf("", errs)
	_, err := f.find(t.Context(), Options{})
	require.EqualError(t, err, `oncetest: no PostgreSQL server:
  url: not set
  local: no programs
  docker: no daemon
    at all
  embedded: no network`)
	for _, reason := range errs {
		require.ErrorIs(t, err, reason)
	}
}

func TestFindKeepsToWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	f, tried := finderOf("", map[Source]error{
		SourceURL: errors.New("not set"), SourceLocal: finalError{errors.New("PGONCE_PG_BINDIR: wrong")},
	})
	_, err := f.find(t.Context(), Options{})
	require.ErrorContains(t, err, "\n  local: PGONCE_PG_BINDIR: wrong\n  docker: not tried after local\n")
	require.Equal(t, []Source{SourceURL, SourceLocal}, *tried)
}

func TestFindContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f, tried := finderOf("", map[Source]error{SourceURL: errors.New("not set"), SourceLocal: context.Canceled})
	start := f.ways[1].start
	f.ways[1].start = func(ctx context.Context, opts Options) (*Server, error) {
		cancel()
		return start(ctx, opts)
	}
	_, err := f.find(ctx, Options{})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []Source{SourceURL, SourceLocal}, *tried)
}

func TestStopTwice(t *testing.T) {
	t.Parallel()
	stops := 0
	failure := errors.New("still running")
	f := &finder{ways: []way{{SourceLocal, func(context.Context, Options) (*Server, error) {
		return &Server{stop: func() error { stops++; return failure }}, nil
	}}}}
	server, err := f.find(t.Context(), Options{})
	require.NoError(t, err)
	require.Equal(t, failure, server.Stop())
	require.Equal(t, failure, server.Stop())
	require.Equal(t, 1, stops)
}
