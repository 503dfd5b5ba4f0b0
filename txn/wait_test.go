package txn_test

import (
	"testing"
	"time"
)

// patience bounds everything that a test waits for. It is far more than is ever needed, so that a busy machine fails nothing.
const patience = 30 * time.Second

// eventually polls until condition holds.
func eventually(t testing.TB, condition func() bool, message string) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(message)
		}
	}
}

// receive takes from a channel.
func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("waited in vain")
		panic("unreachable")
	}
}

// async runs f in a goroutine; the channel gives what it returns.
func async[T any](f func() T) <-chan T {
	c := make(chan T, 1)
	go func() { c <- f() }()
	return c
}
