package oncetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
)

// DefaultImage is the container image that serves when PGONCE_TEST_IMAGE is not set.
const DefaultImage = "postgres:18"

// dockerWay starts a container.
type dockerWay struct{ image string }

func (w dockerWay) start(ctx context.Context, opts Options) (server *Server, err error) {
	if opts.Keep {
		return nil, errors.New("a container ends with the process that started it: " +
			"to keep one, start it by docker run and set PGONCE_DATABASE_URL")
	}
	// Some versions of testcontainers-go panic where there is no Docker.
	defer func() {
		if r := recover(); r != nil {
			server, err = nil, fmt.Errorf("testcontainers-go: %v", r)
		}
	}()

	image := cmp.Or(w.image, DefaultImage)
	command := []string{"postgres"}
	settings := opts.settings()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		command = append(command, "-c", name+"="+settings[name])
	}
	container, err := postgres.Run(ctx, image,
		postgres.BasicWaitStrategies(),
		testcontainers.WithCmd(command...),
		testcontainers.WithLogger(log.NewNoopLogger()),
	)
	stop := func() error {
		if container == nil {
			return nil
		}
		return testcontainers.TerminateContainer(container)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("image %s: %w", image, err), stop())
	}
	url, err := container.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return &Server{url: url, stop: stop}, nil
}
