package demo

import (
	"net/http"
	"time"
)

// gitHub is told apart by the header X-GitHub-Delivery, which a redelivery keeps. Nothing in the body does it.
type gitHub struct{}

func (gitHub) Name() string { return "github" }

// RetryHorizon is an assumption: GitHub redelivers by hand or API only, and names no end in its documentation.
func (gitHub) RetryHorizon() time.Duration { return 30 * day }

func (gitHub) Answer() Answer { return Answer{Status: http.StatusAccepted} }

func (gitHub) Identity(headers http.Header, _ []byte) ([]Event, error) {
	return headerID(headers, "X-GitHub-Delivery", headers.Get("X-GitHub-Event"))
}
