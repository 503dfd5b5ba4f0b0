package main

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
)

// env is what the commands of one invocation share.
type env struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string

	output      outputFormat // --output
	databaseURL string       // --database-url
}

// action makes an error of f a failure. What cobra finds by itself never comes here, so it is an error of usage.
func (e *env) action(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := f(cmd, args); err != nil {
			return &failure{err}
		}
		return nil
	}
}

// onDatabase is action with a connection.
func (e *env) onDatabase(f func(cmd *cobra.Command, pool *pgxpool.Pool, args []string) error) func(*cobra.Command, []string) error {
	return e.action(func(cmd *cobra.Command, args []string) error {
		pool, err := e.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer pool.Close()
		return f(cmd, pool, args)
	})
}

// connect prepares a pool for the database that the invocation names. Nothing is sent yet.
func (e *env) connect(ctx context.Context) (*pgxpool.Pool, error) {
	url := e.databaseURL
	if url == "" {
		url = e.getenv("DATABASE_URL")
	}
	config, err := pgxpool.ParseConfig(url) // looks into libpq's variables for what the URL leaves open
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	if params := config.ConnConfig.RuntimeParams; params["application_name"] == "" {
		params["application_name"] = "pgonce"
	}
	config.MaxConns = 2
	return pgxpool.NewWithConfig(ctx, config)
}
