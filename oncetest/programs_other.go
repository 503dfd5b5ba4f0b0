//go:build !unix

package oncetest

import (
	"context"
	"errors"
)

func startPrograms(context.Context, string, Options, func() (int, error)) (*Server, error) {
	return nil, errors.New("starting server programs is not supported on this system")
}
