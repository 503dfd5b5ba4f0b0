package demo

import (
	"net/http"
	"time"
)

// payPalWebhook is told apart by the event's id in the body.
type payPalWebhook struct{}

func (payPalWebhook) Name() string { return "paypal_webhook" }

// RetryHorizon is that of up to 25 resends over 3 days.
func (payPalWebhook) RetryHorizon() time.Duration { return 3 * day }

func (payPalWebhook) Answer() Answer { return Answer{Status: http.StatusOK} }

func (payPalWebhook) Identity(_ http.Header, body []byte) ([]Event, error) {
	var event struct {
		ID        string `json:"id"`
		EventType string `json:"event_type"`
		Summary   string `json:"summary"`
	}
	if err := decodeJSON(body, &event); err != nil {
		return nil, err
	}
	return bodyID("id", event.ID, event.EventType, event.Summary)
}

// payPalIPN is told apart by transaction and status: one transaction comes as Pending, Completed, Refunded and so on,
// each of them an event.
type payPalIPN struct{}

func (payPalIPN) Name() string { return "paypal_ipn" }

// RetryHorizon is that of up to 16 resends; PayPal publishes their number, not their times, and four days is what
// those who run it report.
func (payPalIPN) RetryHorizon() time.Duration { return 4 * day }

func (payPalIPN) Answer() Answer { return Answer{Status: http.StatusOK} }

func (payPalIPN) Identity(headers http.Header, body []byte) ([]Event, error) {
	form, err := parseForm(headers, body)
	if err != nil {
		return nil, err
	}
	id, err := need(form, "txn_id", "payment_status")
	if err != nil {
		return nil, err
	}
	return []Event{{ID: id[0] + "|" + id[1], Kind: id[1], Note: form["first_name"]}}, nil
}
