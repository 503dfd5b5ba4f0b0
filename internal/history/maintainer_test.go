package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/internal/pgproxy"
)

// maintainer maintains the scope, in whole rounds or in single steps. Two of them are at work at the same time.
type maintainer struct {
	run    *round
	random *rand.Rand
	conn   *pgx.Conn
	steps  bool
}

// until is the clock that the maintainer goes by: now, or ahead by up to a quarter of the window.
func (m *maintainer) until() time.Time {
	ahead := time.Duration(0)
	if m.random.IntN(2) == 0 {
		ahead = time.Duration(m.random.Int64N(int64(window / 4)))
	}
	latest := m.run.clock.now() + ahead
	m.run.leapTo(latest)
	return m.run.clock.base.Add(latest)
}

func (m *maintainer) loop(ctx context.Context) {
	defer func() { _ = m.conn.Close(context.Background()) }()
	for ctx.Err() == nil && !m.run.broken() {
		var err error
		if m.steps {
			err = m.step()
		} else {
			_, err = m.conn.Exec(context.Background(), "CALL once.maintain('s', interval '50 ms', $1::timestamptz, NULL)", m.until())
		}
		if err != nil && pgonce.Code(err) != "40P01" && pgonce.Code(err) != "55P03" {
			m.run.problem("maintain (single steps %v): %v", m.steps, err)
			return
		}
		// Once in a while it stalls: between two steps, such as publishing and switching, or between two rounds.
		pause := 5 * time.Millisecond
		if m.random.IntN(4) == 0 {
			pause = time.Duration(m.random.Int64N(int64(window / generations)))
		}
		time.Sleep(pause)
	}
}

// step takes one step, and sometimes holds its transaction open: what it has published waits, what it has switched is
// not recorded yet, the keys that it has carried over are locked.
func (m *maintainer) step() error {
	ctx := context.Background()
	return pgx.BeginFunc(ctx, m.conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT once._maintain_step('s', greatest($1::timestamptz, pg_catalog.clock_timestamp()))", m.until())
		if err == nil && m.random.IntN(6) == 0 {
			time.Sleep(time.Duration(m.random.Int64N(int64(window / generations))))
		}
		return err
	})
}

// terminate ends the connections of clients, one now and then: wherever they are, or right at COMMIT, on either side of it.
func (r *round) terminate(ctx context.Context, random *rand.Rand, conn *pgx.Conn) {
	for ctx.Err() == nil && !r.broken() {
		time.Sleep(time.Duration(random.Int64N(int64(200 * time.Millisecond))))
		switch random.IntN(4) {
		case 0:
			r.proxy.CutCommit(pgproxy.BeforeServer)
			continue
		case 1, 2:
			r.proxy.CutCommit(pgproxy.AfterServer)
			continue
		}
		_, err := conn.Exec(context.Background(), `SELECT pg_catalog.pg_terminate_backend(a.pid) FROM pg_catalog.pg_stat_activity AS a
			WHERE a.datname = pg_catalog.current_database() AND a.application_name = 'client' AND a.state <> 'idle'
			ORDER BY pg_catalog.random() LIMIT 1`)
		if err != nil {
			r.fault(fmt.Errorf("terminate: %w", err))
			return
		}
	}
}

// stall keeps writers out of the open generation for a moment: they have read the fence, or not, and go on when it may have
// moved.
func (r *round) stall(ctx context.Context, random *rand.Rand, conn *pgx.Conn) {
	for ctx.Err() == nil && !r.broken() {
		time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
		err := pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) error {
			var leaf *string
			err := tx.QueryRow(context.Background(), `SELECT max('once_data.s_g' || e.generation) FROM once.epoch AS e
				JOIN once.scope AS s USING (scope_id)
				WHERE s.name = 's' AND e.epoch = once.current_epoch('s')`).Scan(&leaf)
			if err != nil || leaf == nil {
				return err
			}
			_, err = tx.Exec(context.Background(), "SET LOCAL lock_timeout = '20ms'; LOCK TABLE "+*leaf+" IN SHARE MODE")
			if err == nil {
				time.Sleep(time.Duration(random.Int64N(int64(window / generations))))
			}
			return err
		})
		if err != nil && !slices.Contains([]string{"55P03", "40P01", "42P01"}, pgonce.Code(err)) { // 42P01: retired meanwhile
			r.fault(fmt.Errorf("stall: %w", err))
			return
		}
	}
}

// lostConnection reports whether err is that of a connection which was terminated.
func lostConnection(err error) bool {
	var network *net.OpError
	return pgonce.Code(err) == "57P01" || pgconn.SafeToRetry(err) || errors.As(err, &network) ||
		errors.Is(err, pgonce.ErrOutcomeUnknown) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		strings.Contains(err.Error(), "conn closed") || // of pgx's, which has no type for it either
		strings.Contains(err.Error(), "the connection was lost before the completion")
}
