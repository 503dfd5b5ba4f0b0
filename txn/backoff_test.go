package txn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The pauses are uniform between zero and a cap that begins at 10 ms and doubles, to a mean of half a second.
func TestBackOffHasFullJitterAndGrows(t *testing.T) {
	t.Parallel()
	const samples = 400
	mean := backoffFirst
	for pause := range 9 {
		low, high := 0, 0
		for range samples {
			b := newBackOff()
			for range pause {
				b.NextBackOff()
			}
			p := b.NextBackOff()
			require.GreaterOrEqual(t, p, time.Duration(0))
			require.LessOrEqual(t, p, 2*mean+1)
			switch {
			case p < mean/2:
				low++
			case p > mean+mean/2:
				high++
			}
		}
		// A quarter each is expected; less than an eighth lies almost six standard deviations below.
		require.Greater(t, low, samples/8, "pause %d", pause)
		require.Greater(t, high, samples/8, "pause %d", pause)
		mean = min(2*mean, backoffMax)
	}
}
