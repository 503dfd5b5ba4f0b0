package demo

import (
	"encoding/json"
	"net/http"
	"time"
)

// standardWebhooks is any sender that follows the Standard Webhooks specification. The header webhook-id tells events
// apart; timestamp and signature are new in every retry.
type standardWebhooks struct{}

func (standardWebhooks) Name() string { return "standardwebhooks" }

// RetryHorizon covers the specification's example schedule of 75 hours and 36 minutes.
func (standardWebhooks) RetryHorizon() time.Duration { return 4 * day }

func (standardWebhooks) Answer() Answer { return Answer{Status: http.StatusNoContent} }

func (standardWebhooks) Identity(headers http.Header, body []byte) ([]Event, error) {
	// The body is the sender's affair; only its type is told by the specification.
	var payload struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(body, &payload)
	return headerID(headers, "webhook-id", payload.Type)
}
