package history

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	soakFor  = flag.Duration("soak", 0, "how long TestSoak runs; zero: not at all")
	slow     = flag.Bool("slow", false, "have TestMutants look for those, too, that may take minutes to be found")
	soakSeed = flag.Uint64("seed", 0, "seed of the first round of TestHistory and TestSoak; zero: any")
)

func TestMain(m *testing.M) {
	// The rounds wait more than they compute. Each has about 40 connections, of which a test server has 200.
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set("4")
	}
	goleak.VerifyTestMain(m)
}

func seed() uint64 {
	if *soakSeed != 0 {
		return *soakSeed
	}
	return rand.Uint64() >> 16
}

// requireGood fails with all that is needed to look further.
func requireGood(t testing.TB, v verdict, seed uint64) {
	t.Helper()
	require.Empty(t, v.violations, "seed %d, picture %s\n%s", seed, v.picture, v)
}

// One round over the functions as they are, with stalls; more where a slow machine does too little in one. It runs before the
// parallel tests, so that it has the machine for itself.
func TestHistory(t *testing.T) {
	h := newHarness(t, stalls)
	enough := func() bool {
		return h.n.wins > 50 && h.n.replays > 20 && h.n.rotations > 3 && h.n.retirements > 0 && h.n.carried > 0 && h.n.unknown > 0
	}
	for start, seed := time.Now(), seed(); !enough(); seed++ {
		require.Less(t, time.Since(start), 4*time.Minute, "too little was done to mean anything: %v", h.n)
		v := h.play(seed, 5*time.Second, true)
		t.Logf("seed %d: %v", seed, h.n)
		requireGood(t, v, seed)
		require.Empty(t, v.inconclusive, "seed %d: keys whose check was given up", seed)
	}
}

// TestSoak is TestHistory for as long as one likes, in rounds:
//
//	go test ./internal/history -run Soak -soak 10m -timeout 0
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("needs -soak")
	}
	h := newHarness(t, stalls)
	start, first, inconclusive := time.Now(), seed(), 0
	rounds := uint64(0)
	for ; time.Since(start) < *soakFor; rounds++ {
		v := h.play(first+rounds, 8*time.Second, true)
		t.Logf("%v round %d, seed %d: %v", time.Since(start).Round(time.Second), rounds+1, first+rounds, h.n)
		if len(v.inconclusive) > 0 {
			inconclusive++
			t.Logf("inconclusive: the check of keys %v was given up", v.inconclusive)
		}
		requireGood(t, v, first+rounds)
	}
	t.Logf("total of %v in %d rounds, %d of them inconclusive: %v", time.Since(start).Round(time.Second), rounds, inconclusive, h.n)
	require.Zero(t, inconclusive, "rounds that were not wholly checked")
}
