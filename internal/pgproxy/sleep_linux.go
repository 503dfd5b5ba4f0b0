package pgproxy

import (
	"syscall"
	"time"
)

// coarse is how far from the goal the runtime's timer is trusted.
const coarse = 3 * time.Millisecond

// sleepUntil returns at t or up to about 0.1 ms later. When all goroutines are idle the runtime waits in
// epoll_wait, whose timeout is whole milliseconds, so the last stretch is left to the kernel's own timer.
func sleepUntil(t time.Time) {
	if left := time.Until(t); left > coarse {
		time.Sleep(left - coarse)
	}
	for {
		left := time.Until(t)
		if left <= 0 {
			return
		}
		ts := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&ts, nil) // a signal ends it early; the loop sleeps the rest
	}
}
