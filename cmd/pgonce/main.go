// Command pgonce looks after pgonce in a database, and makes its functions available to scripts. See pgonce --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/pgonce/pgonce/internal/demo"
)

func main() {
	// The demo starts its receivers from this program.
	if demo.IsReceiver() {
		os.Exit(demo.ReceiverMain())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills
	status := run(ctx, &env{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}, os.Args[1:])
	stop()
	os.Exit(status)
}
