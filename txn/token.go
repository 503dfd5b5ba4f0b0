package txn

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/db"
)

// Outcomes of a token in SQL. Callers see Fresh for the first, and a *pgonce.TokenError for the others.
const (
	outcomeRedeemed pgonce.Outcome = "redeemed"
	outcomeUnknown  pgonce.Outcome = "unknown"
	outcomeForeign  pgonce.Outcome = "foreign"
	outcomeExpired  pgonce.Outcome = "expired"
)

// IssueToken issues a token that stands for one operation of a subject: put it into the form, and redeem it by a Request with
// Token and the same Subject, given to Run, RunSQL, Consume or Claim. However often the form is then submitted, the operation is done
// once, and each time the first result is returned. A submission that fails leaves the token as it was.
//
// The token is 43 letters, digits, "-" and "_"; only a digest of it is stored. It can be redeemed for ttl by the database's clock;
// zero means the scope's session length, below which a ttl is refused. q may be a pool or a transaction.
func IssueToken(ctx context.Context, q Querier, scope, subject string, ttl time.Duration) (string, error) {
	key := pgonce.Key{Scope: scope, Subject: subject, Key: "token"}
	if err := key.Validate(); err != nil {
		return "", err
	}
	params := db.IssueTokenParams{Scope: scope, Subject: subject}
	if ttl != 0 {
		params.Ttl = &ttl
	}
	token, err := db.New(q).IssueToken(ctx, params)
	if err != nil {
		return "", fmt.Errorf("issue token of %s: %w", scope, err)
	}
	return token, nil
}

// tokenKey is once.token_key.
func tokenKey(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "token:" + hex.EncodeToString(sum[:])
}

// redeemIn redeems by the SQL interface, in a transaction that is there.
func redeemIn(ctx context.Context, tx db.DBTX, req Request) (answer db.ClaimResult, err error) {
	answer, err = db.New(tx).RedeemToken(ctx, db.RedeemTokenParams{
		Scope: req.Scope, Token: req.Token, Subject: req.redeemer, Wait: req.wait(ctx),
	})
	if err != nil {
		return answer, fmt.Errorf("redeem %s: %w", req.key(), err)
	}
	answer.Outcome = redeemed(answer.Outcome)
	return answer, nil
}

// redeemed is Fresh for the outcome by which SQL says so of a token.
func redeemed(outcome pgonce.Outcome) pgonce.Outcome {
	if outcome == outcomeRedeemed {
		return pgonce.Fresh
	}
	return outcome
}

func redeemSQL(scope string, epoch int64) string {
	return "select outcome, attempt, claim_id, retry_after, result, content_type, meta, omitted_bytes, finished_at from once_data." +
		pgx.Identifier{fmt.Sprintf("%s_token_e%d", scope, epoch)}.Sanitize() + "($1::text, $2::bytea, $3::interval, null)"
}
