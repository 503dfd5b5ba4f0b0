package txn

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// transaction is the pgx.Tx that a function of the caller's sees. pgx makes transactions only by a BEGIN that travels
// alone, so this is one of our own, over a connection on which BEGIN has been sent.
type transaction struct {
	conn      *pgx.Conn
	savepoint string // "" at the top
	depth     int
	closed    bool
}

var _ pgx.Tx = (*transaction)(nil)

// usable returns an error if the transaction can no longer be completed.
func (t *transaction) usable() error {
	if t.closed {
		return errTxEnded
	}
	switch status := t.conn.PgConn().TxStatus(); status {
	case 'T':
		return nil
	case 'E':
		return fmt.Errorf("%w: a statement in it failed and the function did not return the error", pgx.ErrTxCommitRollback)
	default:
		if t.conn.IsClosed() {
			return errors.New("the connection was lost before the completion")
		}
		return errTxEnded
	}
}

// Begin starts a savepoint.
func (t *transaction) Begin(ctx context.Context) (pgx.Tx, error) {
	if t.closed {
		return nil, pgx.ErrTxClosed
	}
	nested := &transaction{conn: t.conn, depth: t.depth + 1, savepoint: fmt.Sprintf("pgonce_%d", t.depth+1)}
	if _, err := t.conn.Exec(ctx, "savepoint "+nested.savepoint); err != nil {
		return nil, err
	}
	return nested, nil
}

// Commit releases a savepoint. At the top it is refused: returning from the function commits.
func (t *transaction) Commit(ctx context.Context) error {
	if t.closed {
		return pgx.ErrTxClosed
	}
	if t.savepoint == "" {
		return errTxEnded
	}
	t.closed = true
	_, err := t.conn.Exec(ctx, "release savepoint "+t.savepoint)
	return err
}

// Rollback undoes a savepoint. At the top it ends the transaction, and the operation with it.
func (t *transaction) Rollback(ctx context.Context) error {
	if t.closed {
		return pgx.ErrTxClosed
	}
	t.closed = true
	sql := "rollback"
	if t.savepoint != "" {
		sql = "rollback to savepoint " + t.savepoint
	}
	if _, err := t.conn.Exec(ctx, sql); err != nil {
		_ = t.conn.Close(ctx) // as pgx does: the state of the connection is not known
		return err
	}
	return nil
}

func (t *transaction) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	if t.closed {
		return 0, pgx.ErrTxClosed
	}
	return t.conn.CopyFrom(ctx, table, columns, rows)
}

func (t *transaction) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	if t.closed {
		return closedResults{}
	}
	return t.conn.SendBatch(ctx, batch)
}

// LargeObjects returns pgx's, which only a transaction that pgx made can give: one is made over this connection, in the
// middle of the transaction that is there.
func (t *transaction) LargeObjects() pgx.LargeObjects {
	inner, err := t.conn.BeginTx(context.Background(), pgx.TxOptions{BeginQuery: "select"})
	if err != nil {
		return pgx.LargeObjects{}
	}
	return inner.LargeObjects()
}

func (t *transaction) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if t.closed {
		return nil, pgx.ErrTxClosed
	}
	return t.conn.Prepare(ctx, name, sql)
}

func (t *transaction) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if t.closed {
		return pgconn.CommandTag{}, pgx.ErrTxClosed
	}
	return t.conn.Exec(ctx, sql, args...)
}

func (t *transaction) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if t.closed {
		return closedRows{}, pgx.ErrTxClosed
	}
	return t.conn.Query(ctx, sql, args...)
}

func (t *transaction) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if t.closed {
		return closedRows{}
	}
	return t.conn.QueryRow(ctx, sql, args...)
}

func (t *transaction) Conn() *pgx.Conn { return t.conn }

// closedRows and closedResults are what a closed transaction answers. They embed the interfaces for the methods that nobody
// calls after an error.
type closedRows struct{ pgx.Rows }

func (closedRows) Close()                        {}
func (closedRows) Err() error                    { return pgx.ErrTxClosed }
func (closedRows) CommandTag() pgconn.CommandTag { return pgconn.CommandTag{} }
func (closedRows) Next() bool                    { return false }
func (closedRows) Scan(...any) error             { return pgx.ErrTxClosed }

type closedResults struct{ pgx.BatchResults }

func (closedResults) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, pgx.ErrTxClosed }
func (closedResults) Query() (pgx.Rows, error)         { return closedRows{}, pgx.ErrTxClosed }
func (closedResults) QueryRow() pgx.Row                { return closedRows{} }
func (closedResults) Close() error                     { return pgx.ErrTxClosed }
