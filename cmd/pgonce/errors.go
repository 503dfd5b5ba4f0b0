package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// failure is an error of a command that was understood. Any other error is one of usage.
type failure struct{ err error }

func (e *failure) Error() string { return e.err.Error() }
func (e *failure) Unwrap() error { return e.err }

// usageError is an error of usage that a command finds by itself.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// report writes an error for humans and returns the exit status.
func report(w io.Writer, cmd *cobra.Command, err error) int {
	var failed *failure
	var usage *usageError
	if !errors.As(err, &failed) || errors.As(err, &usage) {
		fmt.Fprintf(w, "pgonce: %v\nSee %s --help.\n", err, cmd.CommandPath())
		return exitUsage
	}
	printError(w, failed.err)
	return exitFailure
}

// printError writes an error with all that the server said about it.
func printError(w io.Writer, err error) {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		fmt.Fprintf(w, "pgonce: %v\n", err)
		return
	}
	text := err.Error()
	if err == error(pgErr) {
		text = fmt.Sprintf("%s (SQLSTATE %s)", pgErr.Message, pgErr.Code)
	}
	fmt.Fprintf(w, "pgonce: %s\n", text)
	if pgErr.Detail != "" {
		fmt.Fprintf(w, "DETAIL: %s\n", pgErr.Detail)
	}
	hint := pgErr.Hint
	if hint == "" {
		switch pgErr.Code {
		case "3F000", "42P01", "42883": // no such schema, table or function
			hint = "Is the schema installed, and up to date? See: pgonce migrate status"
		}
	}
	if hint != "" {
		fmt.Fprintf(w, "HINT: %s\n", hint)
	}
}
