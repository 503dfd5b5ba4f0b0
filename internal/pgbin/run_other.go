//go:build !unix

package pgbin

import "errors"

// FreePort is not supported on this system, on which no server is started.
func FreePort() (int, error) { return 0, errors.ErrUnsupported }
