package main

import (
	"context"

	"github.com/pgonce/pgonce/oncetest"
)

// startServer finds or starts a server that writes as in production. One that is started has its checkpoints kept out
// of the measurements; one that exists is taken as it is.
func startServer(ctx context.Context) (url string, stop func() error, err error) {
	server, err := oncetest.FindServer(ctx, oncetest.Options{
		Durable: true,
		Settings: map[string]string{
			"checkpoint_timeout": "30min",
			"max_wal_size":       "8GB",
			"shared_buffers":     "512MB",
			"wal_level":          "replica",
		},
	})
	if err != nil {
		return "", nil, err
	}
	return server.URL(), server.Stop, nil
}
