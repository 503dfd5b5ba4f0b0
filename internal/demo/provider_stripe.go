package demo

import (
	"net/http"
	"time"
)

// stripe is told apart by the event's id. The body is no help: it differs with the API version of the endpoint.
type stripe struct{}

func (stripe) Name() string { return "stripe" }

// RetryHorizon covers resending by hand, for 30 days; automatic retries end after 3.
func (stripe) RetryHorizon() time.Duration { return 30 * day }

func (stripe) Answer() Answer {
	return Answer{Status: http.StatusOK, ContentType: "application/json", Body: `{"received":true}`}
}

func (stripe) Identity(_ http.Header, body []byte) ([]Event, error) {
	var event struct {
		ID   string `json:"id"`
		Type string `json:"type"`
		Data struct {
			Object struct {
				Description string `json:"description"`
			} `json:"object"`
		} `json:"data"`
	}
	if err := decodeJSON(body, &event); err != nil {
		return nil, err
	}
	return bodyID("id", event.ID, event.Type, event.Data.Object.Description)
}
