package txn

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/db"
)

// rollbackTimeout bounds a rollback that nobody waits for; a connection that needs longer is closed.
const rollbackTimeout = 5 * time.Second

// poolSessions take a connection of a pool each, and give it back behind the answer.
type poolSessions struct{ pool *pgxpool.Pool }

func (p poolSessions) open(ctx context.Context) (session, error) {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire connection: %w", err)
	}
	return &pipelineSession{conn: conn.Conn(), release: conn.Release}, nil
}

func (p poolSessions) retry(err error, uncertain bool) bool {
	// While a COMMIT is unanswered, a connection that cannot be had now may be had soon, after a failover say.
	return Retryable(err) || uncertain && !isDecision(err) && !strings.HasPrefix(pgonce.Code(err), "ON")
}

// connSessions share one connection of the caller's. A lost connection cannot be replaced.
type connSessions struct{ conn *pgx.Conn }

func (c connSessions) open(context.Context) (session, error) {
	if !c.conn.IsClosed() && c.conn.PgConn().TxStatus() != 'I' {
		return nil, errors.New("txn: the connection is in a transaction: pass its pgx.Tx")
	}
	return &pipelineSession{conn: c.conn}, nil
}

func (c connSessions) retry(err error, _ bool) bool { return !c.conn.IsClosed() && Retryable(err) }

// pipelineSession sends BEGIN with the claim, and the completion with COMMIT, so that they cost no round trips of their own.
//
// It calls the functions of the scope's current epoch directly, which saves the server a dispatch, by the epoch that this
// connection learned last. That may be outdated, and it does not matter: each of these functions checks the fence itself
// and refuses to act when its epoch is over.
type pipelineSession struct {
	conn    *pgx.Conn
	release func() // gives a pool's connection back; nil for a connection of the caller's
	current *transaction
	epoch   int64 // the epoch that answered the claim; 0: the dispatcher did
	// answered is whether the claim met a finished key: then nobody can miss the lock that a rollback behind the answer gives up.
	answered bool
}

func (s *pipelineSession) tx() pgx.Tx { return s.current }

func (s *pipelineSession) claim(ctx context.Context, req Request) (db.ClaimResult, error) {
	epochs := epochsOf(s.conn)
	epoch := epochs[req.Scope]
	if epoch != 0 && req.Token == "" && req.recentlyFinished() {
		answer, err := s.peek(ctx, req, epoch)
		if err != nil || answer.Outcome != "" {
			return answer, err
		}
	}
	answer, err := s.beginAndClaim(ctx, req, epoch)
	if pgonce.Code(err) == codeUndefinedFunction {
		// The epoch is long over and its functions are dropped.
		delete(epochs, req.Scope)
		if err := s.rollback(ctx); err != nil {
			return answer, err
		}
		answer, err = s.beginAndClaim(ctx, req, 0)
	}
	return answer, err
}

// peek looks at a key that is probably done, by one statement without a transaction. No outcome: it takes a claim to tell.
func (s *pipelineSession) peek(ctx context.Context, req Request, epoch int64) (answer db.ClaimResult, err error) {
	var state *db.ClaimState
	var attempt *int32
	var fingerprint []byte
	err = s.conn.QueryRow(ctx, lookupSQL(req.Scope, epoch), req.Subject, req.Key).Scan(&state, &attempt, &answer.ClaimID,
		&fingerprint, &answer.Result, &answer.ContentType, &answer.Meta, &answer.OmittedBytes, &answer.FinishedAt)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return db.ClaimResult{}, nil
	case pgonce.Code(err) == codeUndefinedFunction:
		delete(epochsOf(s.conn), req.Scope)
		return db.ClaimResult{}, nil
	case err != nil:
		return answer, fmt.Errorf("look up %s: %w", req.key(), err)
	case state == nil, *state != db.OnceClaimStateDone,
		req.Fingerprint != nil && fingerprint != nil && !bytes.Equal(req.Fingerprint, fingerprint):
		return db.ClaimResult{}, nil
	}
	answer.Outcome, answer.Attempt = pgonce.Replay, *attempt
	return answer, nil
}

func (s *pipelineSession) beginAndClaim(ctx context.Context, req Request, epoch int64) (answer db.ClaimResult, err error) {
	s.epoch = epoch
	if epoch == 0 {
		tx, err := s.conn.BeginTx(ctx, req.TxOptions)
		if err != nil {
			return answer, fmt.Errorf("begin: %w", err)
		}
		s.current = &transaction{Tx: tx}
		return s.claimAndLearn(ctx, req)
	}
	batch := &pgx.Batch{}
	batch.BeginTx(req.TxOptions)
	if req.Token != "" {
		batch.Queue(redeemSQL(req.Scope, epoch), req.Key, req.owner, req.wait(ctx))
	} else {
		batch.Queue(claimSQL(req.Scope, epoch), req.Subject, req.Key, req.Fingerprint, req.wait(ctx), true, req.done, newClaimID())
	}
	results := s.conn.SendBatch(ctx, batch)
	s.current = &transaction{Tx: results.Tx()}
	var outcome *pgonce.Outcome
	var attempt *int32
	if _, err = results.Exec(); err == nil {
		err = results.QueryRow().Scan(&outcome, &attempt, &answer.ClaimID, &answer.RetryAfter, &answer.Result,
			&answer.ContentType, &answer.Meta, &answer.OmittedBytes, &answer.FinishedAt)
	}
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return answer, fmt.Errorf("begin and claim %s: %w", req.key(), err)
	}
	if outcome == nil { // the epoch is over
		return s.claimAndLearn(ctx, req)
	}
	answer.Outcome, answer.Attempt = redeemed(*outcome), *attempt
	s.answered = answer.Outcome == pgonce.Replay
	return answer, nil
}

// claimAndLearn claims through the dispatcher and notes the scope's epoch for the next time.
func (s *pipelineSession) claimAndLearn(ctx context.Context, req Request) (db.ClaimResult, error) {
	s.epoch = 0
	answer, err := claimIn(ctx, s.conn, req, true)
	if err != nil {
		return answer, err
	}
	epoch, err := db.New(s.conn).CurrentEpoch(ctx, req.Scope)
	if err != nil {
		return answer, fmt.Errorf("read epoch of %s: %w", req.Scope, err)
	}
	epochsOf(s.conn)[req.Scope] = epoch
	return answer, nil
}

func (s *pipelineSession) settle(ctx context.Context, req Request, claim db.ClaimResult, done stored) error {
	if s.current.closed() {
		return errTxEnded
	}
	if err := usable(s.conn); err != nil {
		return err
	}
	defer s.within(req.CommitTimeout)()
	batch := &pgx.Batch{}
	switch {
	case req.done: // the claim wrote the finished row
	case s.epoch == 0:
		if err := settleIn(ctx, s.conn, req, claim, done); err != nil {
			return err
		}
	default:
		batch.Queue(settleSQL(req.Scope, s.epoch, done.state), req.Subject, req.Key, claim.ClaimID, claim.Attempt,
			done.result, done.contentType, done.meta, req.Fingerprint, req.Scope)
	}
	batch.Queue("commit")
	results := s.conn.SendBatch(ctx, batch)
	var tag pgconn.CommandTag
	var err error
	for range batch.Len() { // the answer to COMMIT is the last; an error before it keeps COMMIT from running
		if tag, err = results.Exec(); err != nil {
			break
		}
	}
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if pgconn.Timeout(err) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	switch {
	case err == nil && tag.String() == "ROLLBACK":
		s.current.close()
		return pgx.ErrTxCommitRollback
	case err == nil:
		s.current.close()
		return nil
	case mayHaveCommitted(s.conn, err):
		return &unansweredError{err}
	default:
		return fmt.Errorf("complete %s: %w", req.key(), lost(err))
	}
}

func (s *pipelineSession) rollback(ctx context.Context) error {
	if !s.open() {
		return nil
	}
	if err := s.current.Rollback(ctx); err != nil { // pgx has closed the connection
		return fmt.Errorf("rollback: %w", err)
	}
	return nil
}

// open reports whether there is a transaction to roll back.
func (s *pipelineSession) open() bool {
	return s.current != nil && !s.current.closed() && s.conn.PgConn().TxStatus() != 'I' && !s.conn.IsClosed()
}

func (s *pipelineSession) close() {
	if s.answered && s.open() && s.release != nil {
		go s.tidy()
		return
	}
	s.tidy()
}

func (s *pipelineSession) tidy() {
	if s.open() {
		done := s.within(rollbackTimeout)
		_ = s.rollback(context.Background())
		done()
	}
	if s.current != nil {
		s.current.close()
	}
	if s.release != nil {
		s.release()
	}
}

// within gives the connection a deadline, until the returned function is called. It is one of the socket, because pgx would start
// a goroutine to watch one of a context.
func (s *pipelineSession) within(d time.Duration) (done func()) {
	socket := s.conn.PgConn().Conn()
	_ = socket.SetDeadline(time.Now().Add(d))
	return func() { _ = socket.SetDeadline(time.Time{}) }
}

// epochsKey is where a connection keeps the epochs that it learned, by scope.
const epochsKey = "github.com/pgonce/pgonce/txn.epochs"

func epochsOf(conn *pgx.Conn) map[string]int64 {
	data := conn.PgConn().CustomData()
	epochs, ok := data[epochsKey].(map[string]int64)
	if !ok {
		epochs = map[string]int64{}
		data[epochsKey] = epochs
	}
	return epochs
}

func lookupSQL(scope string, epoch int64) string {
	return "select state, attempt, claim_id, fingerprint, result, content_type, meta, omitted_bytes, finished_at from once_data." +
		pgx.Identifier{fmt.Sprintf("%s_lookup_e%d", scope, epoch)}.Sanitize() + "($1::text, $2::text)"
}

func claimSQL(scope string, epoch int64) string {
	return "select outcome, attempt, claim_id, retry_after, result, content_type, meta, omitted_bytes, finished_at from once_data." +
		pgx.Identifier{fmt.Sprintf("%s_claim_e%d", scope, epoch)}.Sanitize() + "($1::text, $2::text, $3::bytea, $4::interval, $5::boolean, $6::boolean, $7::uuid, null)"
}

// newClaimID returns a random UUID. The server would make one too, at a tenth of the cost of a claim.
func newClaimID() pgtype.UUID {
	id := pgtype.UUID{Valid: true}
	_, _ = rand.Read(id.Bytes[:]) // never fails
	id.Bytes[6] = id.Bytes[6]&0x0f | 0x40
	id.Bytes[8] = id.Bytes[8]&0x3f | 0x80
	return id
}

// settleSQL settles by the epoch's function; should the epoch be over, or the claim lost, by the dispatcher, which routes
// anew or raises what there is to say.
func settleSQL(scope string, epoch int64, state db.ClaimState) string {
	function := "complete"
	if state == db.OnceClaimStateFailed {
		function = "fail"
	}
	settle := pgx.Identifier{fmt.Sprintf("%s_settle_e%d", scope, epoch)}.Sanitize()
	return fmt.Sprintf("select case when once_data.%s($1::text, $2::text, $3::uuid, $4::integer, '%s', $5::bytea, $6::text, $7::jsonb, $8::bytea)"+
		" then null else once.%s($9::text, $2, $3, $4, $5, $6, $7, $1, $8) end", settle, state, function)
}
