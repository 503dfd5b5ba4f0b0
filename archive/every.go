package archive

import (
	"context"
	"time"
)

// DefaultInterval is how often Every maintains.
const DefaultInterval = time.Minute

// Every maintains at once and then at every interval, until ctx ends. It is for daemons: it blocks, and a round that fails
// is followed by the next. Give it a pool, which replaces a connection that has died.
//
// An interval that is not positive means DefaultInterval. A round that takes longer than the interval is followed by the
// next one at once. done is called after each round with what Maintain returned, in the goroutine of Every; nil is
// allowed. The round that the end of ctx interrupts is not reported: the next one, by whomever, goes on where it stopped.
func Every(ctx context.Context, db DB, interval time.Duration, opts Options, done func(Report, error)) {
	if interval <= 0 {
		interval = DefaultInterval
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		report, err := Maintain(ctx, db, opts)
		if ctx.Err() != nil {
			return
		}
		if done != nil {
			done(report, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}
