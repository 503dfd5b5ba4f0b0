package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// addedRoundTrip is the delay of the measurement over a slow network.
const addedRoundTrip = time.Millisecond

// progress tells on standard error what is going on, so that standard output stays clean.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "# "+format+"\n", args...)
}

// measure runs the whole benchmark in a database of its own.
func measure(ctx context.Context, opts options, selected []contender) (*results, error) {
	db, err := createDatabase(ctx, opts.url, opts.sync)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := db.drop(); err != nil {
			progress("drop %s: %v", db.name, err)
		}
	}()

	found := &results{Sync: opts.sync, Workers: opts.workers, Rounds: opts.rounds}
	if err := db.server.QueryRow(ctx, "SHOW server_version").Scan(&found.Server); err != nil {
		return nil, err
	}
	for _, c := range selected {
		s := &series{Name: c.Name(), Load: map[int]*loadRuns{}}
		for _, workers := range opts.workers {
			s.Load[workers] = &loadRuns{}
		}
		found.Series = append(found.Series, s)
	}

	// The log comes first, while the tables are small: the images of their pages are soon written.
	if err := measureQuietly(ctx, opts, db, selected, found); err != nil {
		return nil, err
	}
	if err := measureLoad(ctx, opts, db, selected, found); err != nil {
		return nil, err
	}
	if err := measureDelayed(ctx, opts, db, selected, found); err != nil {
		return nil, err
	}
	found.computeRatios()
	return found, nil
}

// measureQuietly sets the contenders up and measures log, processor time and round trips on a single connection.
func measureQuietly(ctx context.Context, opts options, db *database, selected []contender, found *results) error {
	counter := &tripCounter{}
	pool, err := db.pool(ctx, 1, counter.dial, nil)
	if err != nil {
		return err
	}
	defer pool.Close()

	progress("set-up and warm-up")
	for _, c := range selected {
		if err := c.Setup(ctx, pool); err != nil {
			return fmt.Errorf("set up %s: %w", c.Name(), err)
		}
	}
	if err := db.checkpoint(ctx); err != nil {
		progress("no checkpoint, figures of the log may be too high: %v", err)
	}
	for _, c := range selected {
		if err := repeat(ctx, c, pool, opts.warmup); err != nil {
			return err
		}
	}

	progress("write-ahead log, processor time and round trips")
	for round := range opts.rounds {
		for _, c := range shuffled(selected, round) {
			wal, err := measureWAL(ctx, c, pool, db.Version, opts.ops)
			if err != nil {
				return err
			}
			s := found.find(c.Name())
			s.WALBytes = append(s.WALBytes, wal.Bytes)
			s.WALRecords = append(s.WALRecords, wal.Records)
			s.WALImages = append(s.WALImages, wal.Images)

			cpu, err := measureCPU(ctx, c, pool, opts.ops)
			if err != nil {
				return err
			}
			s.ServerCPU = append(s.ServerCPU, cpu.Server)
			s.ClientCPU = append(s.ClientCPU, cpu.Client)
		}
	}
	for _, c := range selected {
		if found.find(c.Name()).Trips, err = countTrips(ctx, c, pool, counter, 20); err != nil {
			return err
		}
	}
	return nil
}

// measureLoad measures throughput and latency, for each number of workers.
func measureLoad(ctx context.Context, opts options, db *database, selected []contender, found *results) error {
	pool, err := db.pool(ctx, slices.Max(opts.workers), nil, nil)
	if err != nil {
		return err
	}
	defer pool.Close()

	for _, c := range selected { // every connection prepares its statements
		if _, err := load(ctx, c, pool, slices.Max(opts.workers), opts.duration/4); err != nil {
			return err
		}
	}
	for round := range opts.rounds {
		for _, workers := range opts.workers {
			for _, c := range shuffled(selected, round) {
				got, err := load(ctx, c, pool, workers, opts.duration)
				if err != nil {
					return err
				}
				progress("round %d, %d workers, %s: %.0f/s", round+1, workers, c.Name(), got.PerSecond)
				runs := found.find(c.Name()).Load[workers]
				runs.PerSecond = append(runs.PerSecond, got.PerSecond)
				runs.P50 = append(runs.P50, microseconds(got.P50))
				runs.P99 = append(runs.P99, microseconds(got.P99))
			}
		}
	}
	return nil
}

// measureDelayed measures the latency of one worker with a slow network in between.
func measureDelayed(ctx context.Context, opts options, db *database, selected []contender, found *results) error {
	addr, stop, err := db.startDelay(addedRoundTrip)
	if err != nil {
		return err
	}
	defer stop()
	pool, err := db.pool(ctx, 1, nil, addr)
	if err != nil {
		return err
	}
	defer pool.Close()

	for _, c := range selected {
		if err := repeat(ctx, c, pool, 20); err != nil {
			return err
		}
	}
	for round := range opts.rounds {
		for _, c := range shuffled(selected, round) {
			got, err := load(ctx, c, pool, 1, opts.duration/2)
			if err != nil {
				return err
			}
			progress("round %d, 1 ms, %s: %v", round+1, c.Name(), got.P50)
			s := found.find(c.Name())
			s.Delayed = append(s.Delayed, microseconds(got.P50))
		}
	}
	return nil
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
