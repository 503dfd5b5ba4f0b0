//go:build !linux

package pgproxy

import "time"

// sleepUntil returns at t or somewhat later: how much is up to the system's timer.
func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }
