package txn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/db"
)

// RunSQL is Run for users of database/sql. The driver must be pgx's (github.com/jackc/pgx/v5/stdlib, the drivers "pgx" and
// "pgx/v5"); another one is refused.
//
// Claim and completion are statements of their own here, two round trips more than Run needs. The transaction does not end
// with ctx, as one of database/sql's otherwise does: statements that are given ctx do, and their error ends the function.
// Of TxOptions only the isolation level can be set.
func RunSQL[T any](ctx context.Context, db *sql.DB, req Request, fn func(ctx context.Context, tx *sql.Tx) (T, error)) (Result[T], error) {
	req = req.withDefaults()
	var result Result[T]
	answer, err := run(ctx, sqlSessions{db}, req, func(ctx context.Context, s session) (stored, error) {
		value, err := fn(ctx, s.(*sqlSession).current)
		if err != nil {
			return stored{}, err
		}
		result.Value = value
		return encode(req, value)
	})
	return finish(result, req, answer, err)
}

// ConsumeSQL is Consume for users of database/sql; see RunSQL.
func ConsumeSQL(ctx context.Context, db *sql.DB, req Request, fn func(ctx context.Context, tx *sql.Tx) error) (pgonce.Outcome, error) {
	req = req.withDefaults()
	req.done = req.Meta == nil
	answer, err := run(ctx, sqlSessions{db}, req, func(ctx context.Context, s session) (stored, error) {
		return stored{meta: req.Meta}, fn(ctx, s.(*sqlSession).current)
	})
	if err != nil {
		return "", err
	}
	return answer.Outcome, nil
}

// sqlSessions take a connection each out of a database/sql pool.
type sqlSessions struct{ pool *sql.DB }

func (p sqlSessions) open(ctx context.Context) (session, error) {
	conn, err := p.pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire connection: %w", err)
	}
	s := &sqlSession{conn: conn}
	if err := s.withConn(func(*pgx.Conn) error { return nil }); err != nil { // another driver, before anything is done
		s.close()
		return nil, err
	}
	return s, nil
}

func (p sqlSessions) retry(err error, uncertain bool) bool {
	return poolSessions{}.retry(err, uncertain)
}

// sqlSession is a transaction of database/sql. What belongs to pgonce runs on the pgx connection below it.
type sqlSession struct {
	conn    *sql.Conn
	current *sql.Tx
	cancel  context.CancelFunc // ends the context of current
}

func (s *sqlSession) claim(ctx context.Context, req Request) (answer db.ClaimResult, err error) {
	options, err := sqlOptions(req.TxOptions)
	if err != nil {
		return answer, err
	}
	// database/sql rolls back and commits under the context of BEGIN. The end of the caller's must not undo work that is
	// done, so it bounds BEGIN and nothing after it.
	var txCtx context.Context
	txCtx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, s.cancel)
	s.current, err = s.conn.BeginTx(txCtx, options)
	stop()
	if err != nil {
		return answer, fmt.Errorf("begin: %w", err)
	}
	err = s.withConn(func(conn *pgx.Conn) (err error) {
		answer, err = claimIn(ctx, conn, req, true)
		return err
	})
	return answer, err
}

// tx has nothing to give: RunSQL hands out the *sql.Tx.
func (s *sqlSession) tx() pgx.Tx { return nil }

func (s *sqlSession) settle(ctx context.Context, req Request, claim db.ClaimResult, done stored) error {
	ctx, cancel := context.WithTimeout(ctx, req.CommitTimeout)
	defer cancel()
	err := s.withConn(func(conn *pgx.Conn) error {
		if err := usable(conn); err != nil {
			return err
		}
		return settleIn(ctx, conn, req, claim, done)
	})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, s.cancel)()
	err = s.current.Commit()
	if err == nil {
		s.current = nil
		return nil
	}
	unanswered := false
	_ = s.withConn(func(conn *pgx.Conn) error {
		unanswered = mayHaveCommitted(conn, err)
		return nil
	})
	if unanswered {
		return &unansweredError{err}
	}
	return fmt.Errorf("commit %s: %w", req.key(), err)
}

func (s *sqlSession) rollback(ctx context.Context) error {
	if s.current == nil {
		return nil
	}
	defer s.cancel()
	defer context.AfterFunc(ctx, s.cancel)()
	err := s.current.Rollback()
	s.current = nil
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

func (s *sqlSession) close() {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	_ = s.rollback(ctx) // pgx closes a connection whose rollback fails, and database/sql then drops it
	if s.cancel != nil {
		s.cancel()
	}
	_ = s.conn.Close()
}

// withConn lends the pgx connection to fn.
func (s *sqlSession) withConn(fn func(conn *pgx.Conn) error) error {
	return s.conn.Raw(func(driverConn any) error {
		conn, ok := driverConn.(*stdlib.Conn)
		if !ok {
			return &pgonce.InvalidError{
				Code:    pgonce.CodeInvalidArgument,
				Message: fmt.Sprintf("the driver of the sql.DB is not github.com/jackc/pgx/v5/stdlib: its connections are %T", driverConn),
			}
		}
		return fn(conn.Conn())
	})
}

func sqlOptions(options pgx.TxOptions) (*sql.TxOptions, error) {
	levels := map[pgx.TxIsoLevel]sql.IsolationLevel{
		"":                  sql.LevelDefault,
		pgx.ReadUncommitted: sql.LevelReadUncommitted,
		pgx.ReadCommitted:   sql.LevelReadCommitted,
		pgx.RepeatableRead:  sql.LevelRepeatableRead,
		pgx.Serializable:    sql.LevelSerializable,
	}
	level, ok := levels[options.IsoLevel]
	if !ok || options.AccessMode != "" || options.DeferrableMode != "" {
		return nil, &pgonce.InvalidError{
			Code:    pgonce.CodeInvalidArgument,
			Message: "of TxOptions, database/sql knows the isolation level only",
		}
	}
	return &sql.TxOptions{Isolation: level}, nil
}
