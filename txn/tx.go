package txn

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

var errTxEnded = errors.New("the function ended the transaction of txn: it must leave COMMIT and ROLLBACK to its caller")

// transaction is the pgx.Tx that a function of the caller's sees: pgx's own, except that it does not commit, and that it is
// closed when txn has ended it behind pgx's back.
type transaction struct {
	pgx.Tx
	lent bool // savepoints or large objects stand on Tx
}

// closedTx is a pgx.Tx that answers everything with pgx.ErrTxClosed.
var closedTx = func() pgx.Tx {
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{})
	return pgx.FailedBatchResults(batch, pgx.ErrTxClosed).Tx()
}()

func (t *transaction) closed() bool { return t.Tx == closedTx }

// close closes the transaction, after it has ended on the connection, together with what stands on it.
func (t *transaction) close() {
	if t.lent && !t.closed() {
		// pgx closes its Tx on a COMMIT that fails too. This one fails before anything is sent.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = t.Tx.Commit(ctx)
	}
	t.Tx = closedTx
}

// Begin starts a savepoint.
func (t *transaction) Begin(ctx context.Context) (pgx.Tx, error) {
	t.lent = true
	return t.Tx.Begin(ctx)
}

// LargeObjects returns the large objects of the database, to be used in this transaction.
func (t *transaction) LargeObjects() pgx.LargeObjects {
	t.lent = true
	return t.Tx.LargeObjects()
}

// Commit is refused: returning from the function commits.
func (t *transaction) Commit(context.Context) error {
	if t.closed() {
		return pgx.ErrTxClosed
	}
	return errTxEnded
}

// Rollback ends the transaction, and the operation with it.
func (t *transaction) Rollback(ctx context.Context) error {
	err := t.Tx.Rollback(ctx)
	t.Tx = closedTx
	return err
}

// usable returns an error if the transaction on conn can no longer be completed.
func usable(conn *pgx.Conn) error {
	switch status := conn.PgConn().TxStatus(); {
	case conn.IsClosed():
		return errors.New("the connection was lost before the completion")
	case status == 'T':
		return nil
	case status == 'E':
		return fmt.Errorf("%w: a statement in it failed and the function did not return the error", pgx.ErrTxCommitRollback)
	default:
		return errTxEnded
	}
}
