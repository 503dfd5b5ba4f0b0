package history

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// duel has two clients meet where a key could be won twice, which chance alone brings about too seldom: one holds a new key while
// generations rotate, the other takes its snapshot meanwhile and claims the same key when the first has ended.
type duel struct {
	first, second *client
}

func (d *duel) loop(ctx context.Context) {
	defer d.first.close()
	defer d.second.close()
	random := d.first.random
	for ctx.Err() == nil && d.first.ready() && d.second.ready() {
		key := "d" + d.first.run.tag(d.first.run.seed)
		snapshotAfter := time.Duration(random.Int64N(int64(2 * window / generations)))
		level := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.ReadCommitted, pgx.RepeatableRead}[random.IntN(3)]
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			d.first.inTransaction(level, true, func(t *trial) error {
				if err := t.claimKey(key, t.chance(3), t.chance(3)); err != nil {
					return err
				}
				time.Sleep(time.Duration(t.random.Int64N(int64(2 * window / generations))))
				return nil
			})
		}()
		time.Sleep(snapshotAfter)
		level = []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable}[d.second.random.IntN(2)]
		d.second.inTransaction(level, true, func(t *trial) error {
			if err := t.snapshot(); err != nil {
				return err
			}
			<-ended
			return t.claimKey(key, t.chance(3), t.chance(3))
		})
		<-ended
	}
}
