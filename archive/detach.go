package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// detachTimeout bounds each wait of a concurrent detach: for locks, and for the transactions that were reading the parent.
// Nothing queues behind it, so it is far longer than that of the plain one.
const detachTimeout = "5s"

// dataSchema holds the tables of scopes.
const dataSchema = "once_data"

// detach takes a generation out of its parent without keeping readers of the parent waiting, and reports whether it is
// out. once.maintain has found that no epoch in use names the generation, and that does not change any more. An interrupted
// detach leaves the partition half out; the next attempt, here or in SQL, finalizes it.
func detach(ctx context.Context, db DB, scope string, generation int) (out bool, err error) {
	leaf := fmt.Sprintf("%s_g%d", scope, generation)
	attached, pending, err := attachment(ctx, db, leaf)
	if err != nil || !attached {
		return err == nil, err
	}
	how := "CONCURRENTLY"
	if pending {
		how = "FINALIZE"
	}

	var before string
	if err := db.QueryRow(ctx, "SELECT current_setting('lock_timeout')").Scan(&before); err != nil {
		return false, err
	}
	if err := setLockTimeout(ctx, db, detachTimeout); err != nil {
		return false, err
	}
	_, failure := db.Exec(ctx, fmt.Sprintf("ALTER TABLE %s DETACH PARTITION %s %s",
		pgx.Identifier{dataSchema, scope}.Sanitize(), pgx.Identifier{dataSchema, leaf}.Sanitize(), how))
	if failure != nil && !mayBeOut(failure) {
		err = failure
	}
	// Restored even if the context has ended, because the session may be used by others afterwards.
	if err := errors.Join(err, setLockTimeout(context.WithoutCancel(ctx), db, before)); err != nil {
		return false, err
	}
	attached, _, err = attachment(ctx, db, leaf)
	return err == nil && !attached, err
}

// attachment looks into the catalogue, which every role may.
func attachment(ctx context.Context, db DB, leaf string) (attached, pending bool, err error) {
	err = db.QueryRow(ctx, `
		SELECT count(*) > 0, coalesce(bool_or(i.inhdetachpending), false)
		  FROM pg_catalog.pg_inherits AS i
		  JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
		  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		 WHERE n.nspname = $1 AND c.relname = $2`, dataSchema, leaf).Scan(&attached, &pending)
	return attached, pending, err
}

func setLockTimeout(ctx context.Context, db DB, value string) error {
	_, err := db.Exec(ctx, "SELECT set_config('lock_timeout', $1, false)", value)
	return err
}

// mayBeOut reports whether a failed detach is to be looked at and left: it ran out of time, another session was faster, or
// this role may not do it.
func mayBeOut(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	switch pgErr.Code {
	case "55P03", // lock_not_available: detachTimeout
		"57014", // query_canceled: statement_timeout
		"40P01", // deadlock_detected
		"42501", // insufficient_privilege
		"42P01", // undefined_table: it is no partition any more
		"55000": // object_not_in_prerequisite_state: another session is detaching
		return true
	}
	return false
}
