package txn_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/fingerprint"
	"github.com/pgonce/pgonce/txn"
)

// Failures that were reported of other systems: docs/field-failures.md. Each is tried in every form of claim, at every
// isolation level, that it may concern.

// keyOf is the request of a key, at a level.
func keyOf(level pgx.TxIsoLevel, parts ...any) txn.Request {
	req := request(strings.TrimSpace(fmt.Sprintln(parts...)))
	req.TxOptions.IsoLevel = level
	return req
}

// levels runs a test at each isolation level, in databases of their own, at the same time.
func levels(t *testing.T, levels []pgx.TxIsoLevel, test func(t *testing.T, s *shop, level pgx.TxIsoLevel)) {
	t.Helper()
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			test(t, newShop(t), level)
		})
	}
}

var (
	allLevels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	higher    = allLevels[1:]
)

// A key whose older writer has not committed when the generation is sealed, and which is claimed again after that.
func TestCase01AKeyOnBothSidesOfABoundaryHasOneWinner(t *testing.T) {
	levels(t, allLevels, func(t *testing.T, s *shop, level pgx.TxIsoLevel) {
		older := s.beginAlone(level)
		for _, writer := range forms {
			for _, f := range forms {
				req := keyOf("", writer.name, f.name)
				require.Equal(t, pgonce.Fresh, writer.must(t, older, req, ordering(req.Key)).Outcome)
			}
		}
		// Another row, because an empty generation is never rotated and the older writer's cannot be seen.
		require.Equal(t, pgonce.Fresh, forms[0].must(t, s.Pool, keyOf("", "filler"), ordering("filler")).Outcome)
		s.rotate(1)

		var waiting sync.WaitGroup
		for _, f := range forms {
			conn := s.conn()
			for _, writer := range forms {
				req := keyOf(level, writer.name, f.name)
				req.Strict = true
				require.Equal(t, answer{Outcome: pgonce.InProgress}, f.must(t, conn, req, never[string](t)), req.Key)
			}
			waiting.Go(func() {
				for _, writer := range forms {
					req := keyOf(level, writer.name, f.name)
					a, err := f.again(context.Background(), conn, req, never[string](t))
					if want := (answer{pgonce.Replay, writer.stored("value of " + req.Key)}); err != nil || f.keeps && a != want || a.Outcome != pgonce.Replay {
						t.Errorf("%s: %+v, %v", req.Key, a, err)
					}
				}
			})
		}
		eventually(t, func() bool {
			return s.count(`pg_locks AS l JOIN pg_stat_activity AS a USING (pid) WHERE a.datname = current_database() AND NOT l.granted`) == len(forms)
		}, "they do not wait")
		require.NoError(t, older.Commit(t.Context()))
		waiting.Wait()
		s.requireEachOnce(len(forms)*len(forms) + 1)
	})
}

// The first claim of a transaction whose snapshot was taken before the key was claimed, and before the rotation.
func TestCase02ASnapshotOlderThanTheRotationNeverWins(t *testing.T) {
	for _, drained := range []bool{false, true} {
		t.Run(fmt.Sprint("drained ", drained), func(t *testing.T) {
			levels(t, higher, func(t *testing.T, s *shop, level pgx.TxIsoLevel) {
				require.Equal(t, pgonce.Fresh, forms[0].must(t, s.Pool, keyOf("", "before"), ordering("before")).Outcome)
				old := map[string]pgx.Tx{}
				for _, f := range forms {
					old[f.name] = s.beginAlone(level)
					_, err := old[f.name].Exec(t.Context(), "SELECT FROM public.orders")
					require.NoError(t, err)
				}
				for _, f := range forms {
					req := keyOf("", f.name)
					require.Equal(t, pgonce.Fresh, f.must(t, s.Pool, req, ordering(req.Key)).Outcome)
				}
				if !drained {
					require.Equal(t, pgonce.Fresh, forms[0].must(t, s.beginAlone(""), keyOf("", "open"), ordering("open")).Outcome)
				}
				s.rotate(1)
				require.Equal(t, map[bool]int{false: 0, true: 1}[drained], s.count("once.generations WHERE state = 'drained'"))

				for _, f := range forms {
					_, err := f.do(t.Context(), old[f.name], keyOf("", f.name), never[string](t))
					require.Equal(t, "40001", pgonce.Code(err), "%s: %v", f.name, err)
					require.NoError(t, old[f.name].Rollback(t.Context()))
					require.Equal(t, pgonce.Replay, f.must(t, s.Pool, keyOf(level, f.name), never[string](t)).Outcome)
				}
				s.requireEachOnce(len(forms) + 1)
			})
		})
	}
}

// Callers of one key at the same moment, each in another form: every one of them is answered by one row (the forms look at
// that), or, above READ COMMITTED only, by a conflict that a new transaction resolves.
func TestCase03ARaceAnswersEveryCallerWithOneRow(t *testing.T) {
	levels(t, allLevels, func(t *testing.T, s *shop, level pgx.TxIsoLevel) {
		const rounds = 8
		pool := s.pool(func(c *pgxpool.Config) { c.MaxConns = int32(2 * len(forms)) })
		for round := range rounds {
			var mu sync.Mutex
			outcomes := map[pgonce.Outcome]int{}
			together(2*len(forms), func(i int) {
				req := keyOf(level, round)
				req.Strict = i >= len(forms)
				a, err := forms[i%len(forms)].again(context.Background(), pool, req, ordering(req.Key))
				if err != nil {
					t.Errorf("%s: %v", forms[i%len(forms)].name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				outcomes[a.Outcome]++
			})
			require.Equal(t, 1, outcomes[pgonce.Fresh], outcomes)
			require.Equal(t, 2*len(forms), outcomes[pgonce.Fresh]+outcomes[pgonce.Replay]+outcomes[pgonce.InProgress], outcomes)
		}
		s.requireEachOnce(rounds)
	})
}

// Whatever claims a key that is done, refused or parked, before and after a rotation: not a byte of its row changes.
func TestCase04NoClaimChangesATerminalRow(t *testing.T) {
	levels(t, allLevels, func(t *testing.T, s *shop, level pgx.TxIsoLevel) {
		req := keyOf("", "done")
		req.Fingerprint = []byte{1}
		require.Equal(t, pgonce.Fresh, forms[0].must(t, s.Pool, req, ordering("done")).Outcome)
		_, err := txn.Run(t.Context(), s.Pool, request("failed"), func(context.Context, pgx.Tx) (string, error) { return "", txn.Final(errBusiness) })
		require.ErrorIs(t, err, pgonce.ErrFailed)
		s.exec("SELECT once.claim('orders', 'parked'); UPDATE once_data.orders SET state = 'parked' WHERE key = 'parked'")
		rows := func() (text string) {
			t.Helper()
			require.NoError(t, s.Pool.QueryRow(t.Context(), `SELECT string_agg(concat(o, o.xmin, o.ctid), E'\n' ORDER BY o.generation, o.key)
				FROM once_data.orders AS o WHERE o.state <> 'tombstone'`).Scan(&text))
			return text
		}
		before := rows()
		for rotation := range 2 {
			for _, f := range forms {
				for state, want := range map[string]pgonce.Outcome{"done": pgonce.Replay, "failed": pgonce.Failed, "parked": pgonce.Parked} {
					req := keyOf(level, state)
					for range 2 {
						require.Equal(t, want, f.must(t, s.Pool, req, never[string](t)).Outcome, f.name)
					}
				}
				req := keyOf(level, "done")
				req.Fingerprint = []byte{2}
				require.Equal(t, pgonce.Mismatch, f.must(t, s.Pool, req, never[string](t)).Outcome, f.name)
			}
			require.Equal(t, before, rows())
			if rotation == 0 {
				s.rotate(1)
			}
		}
	})
}

// The loser of a race is told that the key is in progress while it is, and given the result once it is done: no error, and
// its transaction is good for other work.
func TestCase05TheLoserIsAnsweredInProgressThenReplay(t *testing.T) {
	levels(t, allLevels, func(t *testing.T, s *shop, level pgx.TxIsoLevel) {
		for _, winner := range forms {
			finish := s.inFlight(winner, keyOf(level, winner.name))
			for _, f := range forms {
				req := keyOf(level, winner.name)
				req.Strict = true
				a, err := f.do(t.Context(), s.Pool, req, never[string](t)) // no form repeats it
				require.NoError(t, err, f.name)
				require.Equal(t, answer{Outcome: pgonce.InProgress}, a, f.name)

				tx := s.begin(pgx.TxOptions{IsoLevel: level})
				req.TxOptions = pgx.TxOptions{}
				require.Equal(t, answer{Outcome: pgonce.InProgress}, f.must(t, tx, req, never[string](t)), f.name)
				other := keyOf("", "other work of", f.name, "beside", winner.name)
				require.Equal(t, pgonce.Fresh, f.must(t, tx, other, ordering(other.Key)).Outcome)
				require.NoError(t, tx.Commit(t.Context()))
			}
			finish()
			for _, f := range forms {
				a, err := f.do(t.Context(), s.Pool, keyOf(level, winner.name), never[string](t))
				require.NoError(t, err, f.name)
				require.Equal(t, pgonce.Replay, a.Outcome)
				if f.keeps {
					require.Equal(t, winner.stored("value of "+winner.name), a.Value, f.name)
				}
			}
		}
		s.requireEachOnce(len(forms) * (len(forms) + 1))
	})
}

// Second requests that arrive while the first is at work, and wait for it, do nothing themselves.
func TestCase06ARequestThatArrivesMeanwhileDoesNotRunToo(t *testing.T) {
	levels(t, allLevels, func(t *testing.T, s *shop, level pgx.TxIsoLevel) {
		pool := s.pool(func(c *pgxpool.Config) { c.MaxConns = int32(len(forms)) })
		for _, first := range forms {
			finish := s.inFlight(first, keyOf(level, first.name))
			var waiting sync.WaitGroup
			for _, f := range forms {
				waiting.Go(func() {
					a, err := f.again(context.Background(), pool, keyOf(level, first.name), never[string](t))
					if err != nil || a.Outcome != pgonce.Replay {
						t.Errorf("%s after %s: %+v, %v", f.name, first.name, a, err)
					}
				})
			}
			eventually(t, func() bool {
				return s.count(`pg_locks AS l JOIN pg_stat_activity AS a USING (pid) WHERE a.datname = current_database() AND NOT l.granted`) == len(forms)
			}, "they do not wait")
			finish()
			waiting.Wait()
		}
		s.requireEachOnce(len(forms))
	})
}

// No advisory lock outlives its transaction, however that ends: behind a pooler in transaction mode the next client would
// inherit it.
func TestCase08NoLockOutlivesItsTransaction(t *testing.T) {
	levels(t, allLevels, func(t *testing.T, s *shop, level pgx.TxIsoLevel) {
		conn := s.conn()
		held := func() int {
			t.Helper()
			return s.count("pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
		}
		for i, f := range forms {
			tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			require.NoError(t, err)
			rolledBack := keyOf("", f.name, "rolled back")
			require.Equal(t, pgonce.Fresh, f.must(t, tx, rolledBack, ordering(rolledBack.Key)).Outcome)
			require.Positive(t, held(), "%s takes a lock", f.name)
			require.NoError(t, tx.Rollback(t.Context()))
			require.Zero(t, held(), f.name)

			_, err = f.do(t.Context(), conn, keyOf(level, f.name, "failed"), func(context.Context, pgx.Tx) (string, error) { return "", errBusiness })
			require.ErrorIs(t, err, errBusiness)
			require.Zero(t, held(), f.name)

			for _, want := range []pgonce.Outcome{pgonce.Fresh, pgonce.Replay} {
				req := keyOf(level, f.name)
				require.Equal(t, want, f.must(t, conn, req, ordering(req.Key)).Outcome)
				require.Zero(t, held(), f.name)
			}
			s.rotate(i + 1)
			require.Zero(t, held(), "maintenance after %s", f.name)
		}
	})
}

// Somebody keeps the rows that every claim needs locked: claims neither wait for that nor lock them themselves.
func TestCase09ClaimsOnlyReadTheControlRows(t *testing.T) {
	levels(t, allLevels, func(t *testing.T, s *shop, level pgx.TxIsoLevel) {
		req := keyOf("", "first")
		require.Equal(t, pgonce.Fresh, forms[0].must(t, s.Pool, req, ordering(req.Key)).Outcome)
		s.rotate(1)
		control := []string{"once.scope", "once.generation", "once.epoch", "once.scope_grant"}
		versions := func() (text string) {
			t.Helper()
			require.NoError(t, s.Pool.QueryRow(t.Context(), `SELECT concat((SELECT string_agg(concat(ctid, xmin, xmax), ';' ORDER BY ctid) FROM once.scope),
				(SELECT string_agg(concat(ctid, xmin, xmax), ';' ORDER BY ctid) FROM once.generation),
				(SELECT string_agg(concat(ctid, xmin, xmax), ';' ORDER BY ctid) FROM once.epoch))`).Scan(&text))
			return text
		}
		claims := func(what string) {
			t.Helper()
			for _, f := range forms {
				tx := s.begin(pgx.TxOptions{IsoLevel: level})
				_, err := tx.Exec(t.Context(), "SET LOCAL lock_timeout = '10s'")
				require.NoError(t, err)
				for _, want := range []pgonce.Outcome{pgonce.Fresh, pgonce.Replay} {
					req := keyOf("", f.name, what)
					require.Equal(t, want, f.must(t, tx, req, ordering(req.Key)).Outcome)
				}
				var modes []string
				require.NoError(t, tx.QueryRow(t.Context(), `SELECT array_agg(DISTINCT concat(relation::regclass, ' ', mode)) FROM pg_locks
					WHERE pid = pg_backend_pid() AND relation = ANY ($1::regclass[]) AND mode NOT IN ('AccessShareLock', 'SIReadLock')`, control).Scan(&modes))
				require.Empty(t, modes, f.name)
				require.NoError(t, tx.Commit(t.Context()))
			}
		}
		before := versions()
		claims("alone")
		require.Equal(t, before, versions(), "a claim has locked a row")

		locker := s.beginAlone("")
		for _, table := range control {
			_, err := locker.Exec(t.Context(), "SELECT FROM "+table+" FOR UPDATE")
			require.NoError(t, err)
		}
		claims("beside a lock")
	})
}

// Two users use one key: each has an operation and a result of its own, and is never given the other's.
func TestCase19AResultIsGivenToItsSubjectOnly(t *testing.T) {
	levels(t, allLevels, func(t *testing.T, s *shop, level pgx.TxIsoLevel) {
		subjects := []string{"alice", "bob", "Alice", "alice ", ""}
		of := func(f form, subject string) txn.Request {
			req := keyOf(level, f.name)
			req.Subject = subject
			return req
		}
		for _, f := range forms {
			// While one is at work, the next neither waits nor is told.
			finish := s.inFlight(f, of(f, "carol"))
			for _, subject := range subjects {
				ref := f.name + " of " + subject
				require.Equal(t, answer{pgonce.Fresh, f.stored("value of " + ref)}, valueOf(f, f.must(t, s.Pool, of(f, subject), ordering(ref))))
			}
			finish()
		}
		s.rotate(1)
		for _, f := range forms {
			for _, subject := range subjects {
				ref := f.name + " of " + subject
				require.Equal(t, answer{pgonce.Replay, f.stored("value of " + ref)}, valueOf(f, f.must(t, s.Pool, of(f, subject), never[string](t))))
			}
			_, found, err := txn.Lookup(t.Context(), s.Pool, pgonce.Key{Scope: "orders", Subject: "dave", Key: f.name})
			require.NoError(t, err)
			require.False(t, found)
		}
		s.requireEachOnce(len(forms) * (len(subjects) + 1))
	})
}

// valueOf leaves out the value of a form that stores none.
func valueOf(f form, a answer) answer {
	a.Value = f.stored(a.Value)
	return a
}

// A key comes again with another body, while the first is at work, when it is done, and after a rotation: nothing is done.
func TestCase20AnotherFingerprintIsAMismatch(t *testing.T) {
	levels(t, allLevels, func(t *testing.T, s *shop, level pgx.TxIsoLevel) {
		other := func(writer form) {
			t.Helper()
			for _, f := range forms {
				for _, fingerprint := range [][]byte{{1, 3}, {1}, {1, 2, 0}, {}} {
					req := keyOf(level, writer.name)
					req.Fingerprint = fingerprint
					require.Equal(t, answer{Outcome: pgonce.Mismatch}, f.must(t, s.Pool, req, never[string](t)), "%s after %s", f.name, writer.name)
				}
			}
		}
		for _, writer := range forms {
			req := keyOf(level, writer.name)
			req.Fingerprint = []byte{1, 2}
			require.Equal(t, pgonce.Fresh, writer.must(t, s.Pool, req, ordering(req.Key)).Outcome)
			other(writer)
		}
		s.exec("SELECT once.claim('orders', 'unfinished', p_fingerprint => '\\x0102')")
		other(form{name: "unfinished"})
		s.rotate(1)
		for _, writer := range append(forms, form{name: "unfinished"}) {
			other(writer)
		}
		for _, f := range forms { // the same one, and none
			for _, fingerprint := range [][]byte{{1, 2}, nil} {
				req := keyOf(level, f.name)
				req.Fingerprint = fingerprint
				require.Equal(t, pgonce.Replay, f.must(t, s.Pool, req, never[string](t)).Outcome)
			}
		}
		s.requireEachOnce(len(forms))
	})
}

// The same id with other inputs is not given the first run's result; with the same inputs, written otherwise, it is.
func TestCase21OtherInputsAreNotGivenTheFirstResult(t *testing.T) {
	levels(t, allLevels, func(t *testing.T, s *shop, level pgx.TxIsoLevel) {
		digest := func(body string) []byte {
			t.Helper()
			sum, err := fingerprint.JSON([]byte(body))
			require.NoError(t, err)
			return sum
		}
		for _, writer := range forms {
			req := keyOf(level, writer.name)
			req.Fingerprint = digest(`{"account": 17, "amount": 100}`)
			require.Equal(t, pgonce.Fresh, writer.must(t, s.Pool, req, ordering(req.Key)).Outcome)
			for _, f := range forms {
				for body, want := range map[string]answer{
					`{"amount": 1e2, "account": 17}`:            {pgonce.Replay, f.stored(writer.stored("value of " + req.Key))},
					`{"account": 17, "amount": 101}`:            {Outcome: pgonce.Mismatch},
					`{"account": "17", "amount": 100}`:          {Outcome: pgonce.Mismatch},
					`{"account": 17}`:                           {Outcome: pgonce.Mismatch},
					`{"account": 17, "amount": 100, "n": null}`: {Outcome: pgonce.Mismatch},
				} {
					req.Fingerprint = digest(body)
					require.Equal(t, want, valueOf(f, f.must(t, s.Pool, req, never[string](t))), "%s after %s: %s", f.name, writer.name, body)
				}
			}
		}
		s.requireEachOnce(len(forms))
	})
}
