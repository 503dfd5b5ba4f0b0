package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/db"
)

// scopeJSON is what a help text says of a scope's members.
const scopeJSON = `name, window, retry_horizon, generations, rotate_rows, lease, max_attempts, on_expiry, max_result_bytes,
subject_required, archive, session_length, epoch, open_generation, open_since, live_generations, rows_estimate, bytes, created_at, maintained_at`

type scopeOutput struct {
	Name            string     `json:"name"`
	DedupWindow     string     `json:"window"`
	RetryHorizon    string     `json:"retry_horizon"`
	Generations     int32      `json:"generations"`
	RotateRows      *int64     `json:"rotate_rows"`
	Lease           string     `json:"lease"`
	MaxAttempts     int32      `json:"max_attempts"`
	OnExpiry        string     `json:"on_expiry"`
	MaxResultBytes  int32      `json:"max_result_bytes"`
	SubjectRequired bool       `json:"subject_required"`
	Archive         string     `json:"archive"`
	SessionLength   string     `json:"session_length"`
	Epoch           int64      `json:"epoch"`
	OpenGeneration  int32      `json:"open_generation"`
	OpenSince       *time.Time `json:"open_since"`
	LiveGenerations int64      `json:"live_generations"`
	RowsEstimate    int64      `json:"rows_estimate"`
	Bytes           int64      `json:"bytes"`
	CreatedAt       time.Time  `json:"created_at"`
	MaintainedAt    *time.Time `json:"maintained_at"`
}

func newScopeCommand(e *env) *cobra.Command {
	cmd := newGroup("scope", "Create, change, list and drop scopes",
		"Create, change, list and drop scopes: namespaces of keys, each with one policy and its own tables.")
	cmd.AddCommand(
		newScopeCreateCommand(e),
		newScopeAlterCommand(e),
		newScopeListCommand(e),
		newScopeDropCommand(e),
		newScopeGrantCommand(e),
		newScopeRevokeCommand(e),
	)
	return cmd
}

// scopes reads one scope, or all if name is nil. They are never nil.
func scopes(ctx context.Context, conn db.DBTX, name *string) ([]scopeOutput, error) {
	rows, err := db.New(conn).Scopes(ctx, name)
	if err != nil {
		return nil, err
	}
	outputs := make([]scopeOutput, len(rows))
	for i, row := range rows {
		row.OpenSince, row.MaintainedAt = utc(row.OpenSince), utc(row.MaintainedAt)
		row.CreatedAt = row.CreatedAt.UTC()
		outputs[i] = scopeOutput(row)
	}
	return outputs, nil
}

// oneScope reads one scope. One that does not exist is the server's error.
func oneScope(ctx context.Context, pool *pgxpool.Pool, name string) (scopeOutput, error) {
	found, err := scopes(ctx, pool, &name)
	if err != nil {
		return scopeOutput{}, err
	}
	if len(found) == 0 {
		if _, err := db.New(pool).CurrentEpoch(ctx, name); err != nil {
			return scopeOutput{}, err
		}
		return scopeOutput{}, &pgonce.InvalidError{Code: pgonce.CodeUnknownScope, Message: "scope is gone: " + name}
	}
	return found[0], nil
}
