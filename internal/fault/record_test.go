//go:build linux

package fault

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/txn"
)

// record is what the callers of operations were told. It may be used concurrently.
type record struct {
	mu        sync.Mutex
	ops       map[string]*operation
	surprises []string
	acks      int
	errors    int // but for those that ask to run the transaction again
	totalKeys int
}

// operation is one key.
type operation struct {
	handler handler
	acked   bool
	values  map[int64]bool // the results that callers were given; empty if the handler gives none
}

func newRecord() *record { return &record{ops: map[string]*operation{}} }

// begin notes that somebody is about to try a key, since it may take effect from then on.
func (r *record) begin(key string, h handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ops[key] == nil {
		r.ops[key] = &operation{handler: h, values: map[int64]bool{}}
		r.totalKeys++
	}
}

// end notes what a caller was told.
func (r *record) end(key string, value int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op := r.ops[key]
	if err != nil {
		if !txn.Retryable(err) {
			r.errors++
		}
		if impossible(err) {
			r.surprises = append(r.surprises, fmt.Sprintf("%s: %v", key, err))
		}
		return
	}
	r.acks++
	op.acked = true
	if op.handler.answers {
		op.values[value] = true
	}
}

func (r *record) acknowledged() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acks
}

// surprise notes what must never happen.
func (r *record) surprise(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.surprises = append(r.surprises, what)
}

// failures is how many callers were given an error that does not ask to run the transaction again.
func (r *record) failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errors
}

func (r *record) handler(key string) handler {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ops[key].handler
}

func (r *record) keys() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.ops))
}

// forget drops keys, which may be claimed anew after their window.
func (r *record) forget(keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		delete(r.ops, key)
	}
}

// forgiveLost takes operations that were acknowledged and have no row for such as were not, and returns how many there are.
func (r *record) forgiveLost(t testing.TB, pool *pgxpool.Pool) (lost int) {
	t.Helper()
	found, err := read(context.Background(), pool, r.keys())
	require.NoError(t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, op := range r.ops {
		if op.acked && len(found[key].rows) == 0 {
			op.acked, op.values = false, map[int64]bool{}
			lost++
		}
	}
	return lost
}

// stored is what the database has of a key.
type stored struct {
	rows   []int64 // of the business table
	state  string  // of the key; empty if it is not known
	result string
}

// check compares the database with what callers were told, and returns every difference. all says that every operation
// must be there, as after retrying all of them. The load must have stopped.
func (r *record) check(ctx context.Context, pool *pgxpool.Pool, all bool) ([]string, error) {
	keys := r.keys()
	found, err := read(ctx, pool, keys)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	wrong := slices.Clone(r.surprises)
	for _, key := range keys {
		for _, what := range r.ops[key].check(found[key], all) {
			wrong = append(wrong, fmt.Sprintf("%s (%s): %s: acknowledged %v %v, stored %+v", key, r.ops[key].handler.name, what,
				r.ops[key].acked, slices.Sorted(maps.Keys(r.ops[key].values)), found[key]))
		}
	}
	return wrong, nil
}

func (o *operation) check(s stored, all bool) (wrong []string) {
	if len(s.rows) > 1 {
		wrong = append(wrong, "doubled")
	}
	if len(s.rows) == 0 && (o.acked || all) {
		wrong = append(wrong, "lost")
	}
	if len(o.values) > 1 {
		wrong = append(wrong, "different results")
	}
	for value := range o.values {
		if !slices.Contains(s.rows, value) {
			wrong = append(wrong, "a result that is not stored")
		}
	}
	if !o.handler.once {
		return wrong
	}
	if (s.state == "done") != (len(s.rows) == 1) || s.state != "done" && s.state != "" {
		wrong = append(wrong, "key and row one without the other")
	}
	if o.handler.answers && len(s.rows) == 1 && s.result != strconv.FormatInt(s.rows[0], 10) {
		wrong = append(wrong, "a stored result that is not the row's")
	}
	return wrong
}

// read is what the database has of keys.
func read(ctx context.Context, pool *pgxpool.Pool, keys []string) (map[string]stored, error) {
	rows, err := pool.Query(ctx, `
		SELECT k, coalesce((SELECT array_agg(value) FROM public.ledger WHERE key = k), '{}'),
		       coalesce(l.state::text, ''), coalesce(convert_from(l.result, 'UTF8'), '')
		  FROM unnest($1::text[]) AS k LEFT JOIN LATERAL once.lookup('s', k) AS l ON true`, keys)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]stored{}
	for rows.Next() {
		var key string
		var s stored
		if err := rows.Scan(&key, &s.rows, &s.state, &s.result); err != nil {
			return nil, err
		}
		found[key] = s
	}
	return found, rows.Err()
}
