package main

import (
	"math"
	"slices"
	"time"
)

// summary describes one figure over the rounds of a benchmark.
type summary struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// summarize returns the median and the extremes of values. All are NaN when there are no values.
func summarize(values []float64) summary {
	if len(values) == 0 {
		return summary{Median: math.NaN(), Min: math.NaN(), Max: math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	median := sorted[mid]
	if len(sorted)%2 == 0 {
		median = (sorted[mid-1] + sorted[mid]) / 2
	}
	return summary{Median: median, Min: sorted[0], Max: sorted[len(sorted)-1]}
}

// pairedRatios divides x by y round by round, so that whatever slowed down a whole round cancels out.
// A round that one of them lacks is left out.
func pairedRatios(x, y []float64) []float64 {
	n := min(len(x), len(y))
	ratios := make([]float64, 0, n)
	for i := range n {
		ratios = append(ratios, x[i]/y[i])
	}
	return ratios
}

// percentile returns the smallest value that at least p percent of sorted do not exceed (nearest rank), and 0
// when there are none.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// shuffled returns values in the order of the given round: rotated by one more place each round, and backwards in
// every second one, so that nobody always follows the same neighbour.
func shuffled[T any](values []T, round int) []T {
	if len(values) == 0 {
		return nil
	}
	first := round % len(values)
	order := slices.Concat(values[first:], values[:first])
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}
