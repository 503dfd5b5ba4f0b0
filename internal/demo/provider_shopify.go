package demo

import (
	"net/http"
	"time"
)

// shopify is told apart by the header X-Shopify-Event-Id. The body holds an order, not an event, and one order comes
// with many events.
type shopify struct{}

func (shopify) Name() string { return "shopify" }

// RetryHorizon is longer than the 4 hours of retries: Shopify warns of deliveries up to a day late.
func (shopify) RetryHorizon() time.Duration { return day }

func (shopify) Answer() Answer { return Answer{Status: http.StatusOK} }

func (shopify) Identity(headers http.Header, _ []byte) ([]Event, error) {
	return headerID(headers, "X-Shopify-Event-Id", headers.Get("X-Shopify-Topic"))
}
