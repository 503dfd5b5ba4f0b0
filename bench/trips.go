package main

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// tripCounter counts round trips on the connections that it dials: a read that follows a write waits for an
// answer of the server, however many messages the write carried.
type tripCounter struct{ trips atomic.Int64 }

// dial is a pgconn.DialFunc.
func (t *tripCounter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countingConn{Conn: conn, trips: &t.trips}, nil
}

type countingConn struct {
	net.Conn

	asked atomic.Bool // something was written since the last read
	trips *atomic.Int64
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.asked.Store(true)
	return c.Conn.Write(b)
}

func (c *countingConn) Read(b []byte) (int, error) {
	if c.asked.Swap(false) {
		c.trips.Add(1)
	}
	return c.Conn.Read(b)
}

// tripsPerOp is how many round trips one operation takes.
type tripsPerOp struct {
	Waited float64 `json:"waited"` // before the operation returned
	Behind float64 `json:"behind"` // after it returned, while the caller went on
}

// countTrips runs the operation n times and counts the round trips of each. The pool must dial with counter and
// be warm, so that nothing is prepared any more.
func countTrips(ctx context.Context, c contender, pool *pgxpool.Pool, counter *tripCounter, n int) (tripsPerOp, error) {
	var waited, behind int64
	for range n {
		before := counter.trips.Load()
		if err := repeat(ctx, c, pool, 1); err != nil {
			return tripsPerOp{}, err
		}
		after := counter.trips.Load()
		time.Sleep(5 * time.Millisecond) // for what goes on behind the answer
		waited += after - before
		behind += counter.trips.Load() - after
	}
	return tripsPerOp{Waited: float64(waited) / float64(n), Behind: float64(behind) / float64(n)}, nil
}
