package demo

import (
	"net/http"
	"time"
)

// weChatPay is WeChat Pay's API v3, told apart by the envelope's id. The resource inside is encrypted, and the first
// notification may come twice within a second, over two network paths.
type weChatPay struct{}

func (weChatPay) Name() string { return "wechatpay_v3" }

// RetryHorizon is that of 15 retries over 24 hours and 4 minutes.
func (weChatPay) RetryHorizon() time.Duration { return 25 * time.Hour }

func (weChatPay) Answer() Answer { return Answer{Status: http.StatusNoContent} }

func (weChatPay) Identity(_ http.Header, body []byte) ([]Event, error) {
	var envelope struct {
		ID        string `json:"id"`
		EventType string `json:"event_type"`
		Summary   string `json:"summary"`
	}
	if err := decodeJSON(body, &envelope); err != nil {
		return nil, err
	}
	return bodyID("id", envelope.ID, envelope.EventType, envelope.Summary)
}
