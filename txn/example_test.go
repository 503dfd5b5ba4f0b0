package txn_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pgonce/pgonce/oncetest"
)

// exampleDatabase gives an example a database of its own, with a scope payments and a table payment. The function that it
// returns drops it.
func exampleDatabase() (*pgxpool.Pool, func()) {
	t := &exampleTB{}
	pool := oncetest.Postgres(t).Pool
	_, err := pool.Exec(context.Background(), `SELECT once.create_scope('payments', p_window => '7 days', p_retry_horizon => '3 days');
		CREATE TABLE public.payment (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount integer NOT NULL)`,
		pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		log.Fatal(err)
	}
	return pool, t.cleanUp
}

// exampleSQL is exampleDatabase for database/sql.
func exampleSQL() (*sql.DB, func()) {
	pool, cleanUp := exampleDatabase()
	db := stdlib.OpenDBFromPool(pool)
	return db, func() {
		_ = db.Close()
		cleanUp()
	}
}

// exampleTB lets an example, which has no testing.T, use oncetest: what would end a test ends the program.
type exampleTB struct {
	testing.TB

	cleanups []func()
}

func (t *exampleTB) cleanUp() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}

func (t *exampleTB) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleTB) Helper()                           {}
func (t *exampleTB) Failed() bool                      { return false }
func (t *exampleTB) Fatal(args ...any)                 { log.Fatal(args...) }
func (t *exampleTB) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }
func (t *exampleTB) Errorf(format string, args ...any) { log.Fatalf(format, args...) }
func (t *exampleTB) Logf(format string, args ...any)   { log.Printf(format, args...) }
func (t *exampleTB) Skip(args ...any)                  { log.Fatal(fmt.Sprint(args...)) }
