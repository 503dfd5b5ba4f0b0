package demo

import (
	"os"
	"testing"
)

// The test binary is the program that the demo starts its receivers from.
func TestMain(m *testing.M) {
	if IsReceiver() {
		os.Exit(ReceiverMain())
	}
	os.Exit(m.Run())
}
