package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// sample is what one contender did in one slice of time.
type sample struct {
	PerSecond float64       // operations a second, all workers together
	P50       time.Duration // latency of one operation
	P99       time.Duration
}

// load lets workers goroutines run the contender's operation for the duration. It starts with a lead-in of a tenth
// of the duration, which is not counted: it wakes up connections, caches and the processor. Every worker has at least one
// operation counted, however long that takes.
func load(ctx context.Context, c contender, pool *pgxpool.Pool, workers int, duration time.Duration) (sample, error) {
	var (
		wg        sync.WaitGroup
		latencies = make([][]time.Duration, workers)
		errs      = make([]error, workers)
		start     = time.Now().Add(duration / 10)
		end       = start.Add(duration)
	)
	for w := range workers {
		wg.Go(func() {
			taken := make([]time.Duration, 0, 1<<14)
			begin := time.Now()
			for i := 0; begin.Before(end) || len(taken) == 0; i++ {
				if err := c.Op(ctx, pool, i); err != nil {
					errs[w] = fmt.Errorf("%s: %w", c.Name(), err)
					return
				}
				now := time.Now()
				if !begin.Before(start) {
					taken = append(taken, now.Sub(begin))
				}
				begin = now
			}
			latencies[w] = taken
		})
	}
	wg.Wait()

	for _, err := range errs {
		if err != nil {
			return sample{}, err
		}
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return sample{
		PerSecond: float64(len(all)) / time.Since(start).Seconds(),
		P50:       percentile(all, 50),
		P99:       percentile(all, 99),
	}, nil
}

// repeat runs the contender's operation n times, one after the other.
func repeat(ctx context.Context, c contender, pool *pgxpool.Pool, n int) error {
	for i := range n {
		if err := c.Op(ctx, pool, i); err != nil {
			return fmt.Errorf("%s: %w", c.Name(), err)
		}
	}
	return nil
}
