package demo

import (
	"net/http"
	"time"
)

// alipay is told apart by notify_id. Two states of one trade have two of them; a retry may carry a new notify_time.
type alipay struct{}

func (alipay) Name() string { return "alipay" }

// RetryHorizon is that of eight notifications "within 25 hours".
func (alipay) RetryHorizon() time.Duration { return 25 * time.Hour }

// Answer is the literal word: Alipay repeats the notification until it reads exactly that.
func (alipay) Answer() Answer {
	return Answer{Status: http.StatusOK, ContentType: "text/plain", Body: "success"}
}

func (alipay) Identity(headers http.Header, body []byte) ([]Event, error) {
	form, err := parseForm(headers, body)
	if err != nil {
		return nil, err
	}
	id, err := need(form, "notify_id")
	if err != nil {
		return nil, err
	}
	return []Event{{ID: "notify_id=" + id[0], Kind: form["trade_status"], Note: form["subject"]}}, nil
}
