package demo

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// adyen sends two kinds of body. A standard notification holds an array of items, each an event of its own, told apart
// by pspReference, eventCode and success: a refund that failed and one that went through differ in success only. A
// balance platform webhook holds one event with an id.
type adyen struct{}

func (adyen) Name() string { return "adyen" }

// RetryHorizon is that of the documented schedule: seconds at first, every 8 hours at the end.
func (adyen) RetryHorizon() time.Duration { return 30 * day }

func (adyen) Answer() Answer {
	return Answer{Status: http.StatusOK, ContentType: "text/plain", Body: "[accepted]"}
}

func (adyen) Identity(_ http.Header, body []byte) ([]Event, error) {
	var notification struct {
		NotificationItems []struct {
			Item struct {
				PSPReference string `json:"pspReference"`
				EventCode    string `json:"eventCode"`
				Success      string `json:"success"`
				Reason       string `json:"reason"`
			} `json:"NotificationRequestItem"`
		} `json:"notificationItems"`
		Type string `json:"type"`
		Data struct {
			EventID     string `json:"eventId"`
			Description string `json:"description"`
		} `json:"data"`
	}
	if err := decodeJSON(body, &notification); err != nil {
		return nil, err
	}
	if strings.HasPrefix(notification.Type, "balancePlatform.") {
		return bodyID("data.eventId", notification.Data.EventID, notification.Type, notification.Data.Description)
	}
	if len(notification.NotificationItems) == 0 {
		return nil, errors.New("the body has no notificationItems")
	}

	var events []Event
	for i, n := range notification.NotificationItems {
		item := n.Item
		switch "" {
		case item.PSPReference:
			return nil, fmt.Errorf("notificationItems[%d] has no pspReference", i)
		case item.EventCode:
			return nil, fmt.Errorf("notificationItems[%d] has no eventCode", i)
		case item.Success:
			return nil, fmt.Errorf("notificationItems[%d] has no success", i)
		}
		events = append(events, Event{
			ID:   item.PSPReference + "|" + item.EventCode + "|" + item.Success,
			Kind: item.EventCode,
			Note: item.Reason,
		})
	}
	return events, nil
}
