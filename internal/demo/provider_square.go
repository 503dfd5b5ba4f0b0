package demo

import (
	"net/http"
	"time"
)

// square is told apart by event_id in the body.
type square struct{}

func (square) Name() string { return "square" }

// RetryHorizon is the longest that Square's pages name: 72 hours.
func (square) RetryHorizon() time.Duration { return 3 * day }

func (square) Answer() Answer { return Answer{Status: http.StatusOK} }

func (square) Identity(_ http.Header, body []byte) ([]Event, error) {
	var event struct {
		EventID string `json:"event_id"`
		Type    string `json:"type"`
	}
	if err := decodeJSON(body, &event); err != nil {
		return nil, err
	}
	return bodyID("event_id", event.EventID, event.Type, "")
}
