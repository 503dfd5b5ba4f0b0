package main

import (
	"context"
	"math"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// cpuPerOp is the processor time of one operation in microseconds. On a machine that others use too its least value is a
// better guide than the clock. A part that cannot be had is 0.
type cpuPerOp struct {
	Client float64 // of this process, all its goroutines
	Server float64 // of the session's server process
}

// measureCPU runs the operation n times and returns the processor time that it took. The pool must have one connection
// only, which is then the one whose server process is asked.
func measureCPU(ctx context.Context, c contender, pool *pgxpool.Pool, n int) (cpuPerOp, error) {
	serverBefore := serverCPU(ctx, pool)
	clientBefore, err := clientCPU()
	if err != nil {
		return cpuPerOp{}, err
	}
	if err := repeat(ctx, c, pool, n); err != nil {
		return cpuPerOp{}, err
	}
	clientAfter, err := clientCPU()
	if err != nil {
		return cpuPerOp{}, err
	}
	used := cpuPerOp{Client: microseconds(clientAfter-clientBefore) / float64(n)}
	if server := microseconds(serverCPU(ctx, pool)-serverBefore) / float64(n); server > 0 {
		used.Server = server
	}
	return used, nil
}

// serverCPU is the processor time that the session's server process has used. It takes a superuser and Linux; the
// result is 0 without them.
func serverCPU(ctx context.Context, pool *pgxpool.Pool) time.Duration {
	var nanoseconds float64
	err := pool.QueryRow(ctx, "SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8").Scan(&nanoseconds)
	if err != nil || nanoseconds > math.MaxInt64 {
		return 0
	}
	return time.Duration(nanoseconds)
}

// clientCPU is the processor time that this process has used.
func clientCPU() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
