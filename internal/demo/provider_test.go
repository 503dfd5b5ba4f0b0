package demo

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The built-in log's bodies and headers are in the providers' real formats.
func TestIdentity_BuiltinLog(t *testing.T) {
	t.Parallel()

	log, err := BuiltinLog()
	require.NoError(t, err)
	got := make(map[string][]Event)
	seen := make(map[eventKey]bool)
	for _, d := range log {
		for i, key := range d.keys() {
			if !seen[key] {
				seen[key] = true
				got[key.provider] = append(got[key.provider], d.Events[i])
			}
		}
	}

	require.Equal(t, map[string][]Event{
		"stripe": {
			{ID: "evt_39bemzYumWiL9dv4wtfUQ1Vle2", Kind: "payment_intent.succeeded", Note: "Teapot, blue, 1.2 l"},
			{ID: "evt_3Ezf5FJtRWiL9dv4wtfUQ1VBZR", Kind: "refund.created"},
		},
		"paypal_webhook": {
			{ID: "WH-LOC5M140Q50O8ZCP9-ZV8T95B1LUYXGSLKM", Kind: "PAYMENT.CAPTURE.COMPLETED", Note: "Payment completed for EUR 18.0 EUR"},
		},
		"paypal_ipn": {
			{ID: "DLIICD233L9F3JUAQ|Pending", Kind: "Pending", Note: "Zoë"},
			{ID: "DLIICD233L9F3JUAQ|Completed", Kind: "Completed", Note: "Zoë"},
		},
		"adyen": {
			{ID: "WU3OSOVNDEIBNQ0M|AUTHORISATION|true", Kind: "AUTHORISATION"},
			{ID: "LB3M8QXGAPS9CQGP|CAPTURE|true", Kind: "CAPTURE"},
			{ID: "96PQPT0RFXMQNXA4|REFUND|false", Kind: "REFUND", Note: "Insufficient balance on payment"},
			{ID: "96PQPT0RFXMQNXA4|REFUND|true", Kind: "REFUND"},
		},
		"alipay": {
			{ID: "notify_id=2026030200222364600228334181517423", Kind: "TRADE_SUCCESS", Note: "青瓷茶壶"},
		},
		"wechatpay_v3": {
			{ID: "0bb60b13-aba0-4361-8c99-bc38eac5c7b0", Kind: "TRANSACTION.SUCCESS", Note: "支付成功"},
			{ID: "6114407d-1f13-4686-8357-3b37f5da6b3b", Kind: "REFUND.SUCCESS", Note: "退款成功"},
		},
		"square": {
			{ID: "bf0fa99f-2ca0-4bc1-bdb5-8e7ba068eb4f", Kind: "payment.updated"},
		},
		"shopify": {
			{ID: "69ea6b23-4b35-482d-b2a2-a4110ca76825", Kind: "orders/paid"},
			{ID: "a8304371-6f65-422a-ab78-844798f84fa4", Kind: "orders/fulfilled"},
		},
		"github": {
			{ID: "514fe813-57d3-13f7-b8ca-1a670b98237a", Kind: "push"},
		},
		"standardwebhooks": {
			{ID: "msg_ewtmLi8fT7XxTgedlj6NVEnb6La", Kind: "invoice.paid"},
		},
	}, got)
}

func TestIdentity(t *testing.T) {
	t.Parallel()

	const form = "application/x-www-form-urlencoded"
	for name, tt := range map[string]struct {
		provider string
		headers  []string // name, value, …
		body     string
		events   []Event
		err      string
	}{
		"StripeNoID":            {provider: "stripe", body: `{"object":"event"}`, err: "stripe callback: the body has no id"},
		"StripeIDIsANumber":     {provider: "stripe", body: `{"id":7}`, err: "stripe callback: the body: json: cannot unmarshal number"},
		"StripeNotJSON":         {provider: "stripe", body: `id=evt_1`, err: "stripe callback: the body: invalid character"},
		"StripeEmpty":           {provider: "stripe", body: ``, err: "stripe callback: the body: unexpected end"},
		"StripeTooLong":         {provider: "stripe", body: `{"id":"` + strings.Repeat("x", 256) + `"}`, err: "longer than 255 bytes"},
		"StripeNUL":             {provider: "stripe", body: `{"id":"evt\u0000"}`, err: "is not text"},
		"StripeNoteIsCleaned":   {provider: "stripe", body: `{"id":"e","type":"t","data":{"object":{"description":"a\u0000b"}}}`, events: []Event{{ID: "e", Kind: "t", Note: "ab"}}},
		"PayPalWebhookNoID":     {provider: "paypal_webhook", headers: []string{"PAYPAL-TRANSMISSION-ID", "x"}, body: `{"resource":{"id":"1"}}`, err: "the body has no id"},
		"IPNNoStatus":           {provider: "paypal_ipn", body: "txn_id=1", err: "paypal_ipn callback: the form has no payment_status"},
		"IPNNoTransaction":      {provider: "paypal_ipn", body: "payment_status=Completed", err: "the form has no txn_id"},
		"IPNWithoutCharset":     {provider: "paypal_ipn", body: "txn_id=1&payment_status=Completed&first_name=Zo%C3%AB%20X", events: []Event{{"1|Completed", "Completed", "Zoë X"}}},
		"IPNWindows1252":        {provider: "paypal_ipn", body: "txn_id=1&payment_status=Refunded&first_name=Zo%EB%80&charset=windows-1252", events: []Event{{"1|Refunded", "Refunded", "Zoë€"}}},
		"IPNUnknownCharset":     {provider: "paypal_ipn", body: "txn_id=1&payment_status=Refunded&charset=klingon", err: `charset "klingon" is unknown`},
		"IPNBrokenEscape":       {provider: "paypal_ipn", body: "txn_id=%zz", err: "the form: invalid URL escape"},
		"AlipayGBK":             {provider: "alipay", body: "notify_id=1&charset=GBK&subject=%B2%E8&trade_status=T", events: []Event{{"notify_id=1", "T", "茶"}}},
		"AlipayGBKByHeader":     {provider: "alipay", headers: []string{"Content-Type", form + "; charset=GBK"}, body: "notify_id=1&subject=%B2%E8", events: []Event{{"notify_id=1", "", "茶"}}},
		"AlipayFieldBeatsHead":  {provider: "alipay", headers: []string{"Content-Type", form + "; charset=GBK"}, body: "notify_id=1&subject=%E8%8C%B6&charset=utf-8", events: []Event{{"notify_id=1", "", "茶"}}},
		"AlipayWrongCharset":    {provider: "alipay", body: "notify_id=1&subject=%B2%E8", events: []Event{{"notify_id=1", "", "\uFFFD\uFFFD"}}},
		"AlipayNoNotifyID":      {provider: "alipay", body: "trade_no=1&trade_status=TRADE_SUCCESS", err: "the form has no notify_id"},
		"AdyenNoItems":          {provider: "adyen", body: `{"live":"false","notificationItems":[]}`, err: "the body has no notificationItems"},
		"AdyenSecondItemBroken": {provider: "adyen", body: `{"notificationItems":[{"NotificationRequestItem":{"pspReference":"A","eventCode":"CAPTURE","success":"true"}},{"NotificationRequestItem":{"eventCode":"CAPTURE","success":"true"}}]}`, err: "notificationItems[1] has no pspReference"},
		"AdyenNoSuccess":        {provider: "adyen", body: `{"notificationItems":[{"NotificationRequestItem":{"pspReference":"A","eventCode":"CAPTURE"}}]}`, err: "notificationItems[0] has no success"},
		"AdyenBalancePlatform":  {provider: "adyen", body: `{"data":{"id":"T1","eventId":"EV1","sequenceNumber":2,"description":"Fee"},"type":"balancePlatform.transfer.updated"}`, events: []Event{{"EV1", "balancePlatform.transfer.updated", "Fee"}}},
		"AdyenBalanceNoEventID": {provider: "adyen", body: `{"data":{"id":"T1"},"type":"balancePlatform.transfer.updated"}`, err: "the body has no data.eventId"},
		"WeChatNoID":            {provider: "wechatpay_v3", body: `{"event_type":"TRANSACTION.SUCCESS"}`, err: "wechatpay_v3 callback: the body has no id"},
		"SquareDataIDOnly":      {provider: "square", body: `{"data":{"id":"x"}}`, err: "the body has no event_id"},
		"ShopifyNoEventID":      {provider: "shopify", headers: []string{"X-Shopify-Webhook-Id", "w"}, body: `{"id":1}`, err: "no X-Shopify-Event-Id header"},
		"ShopifyAnyCase":        {provider: "shopify", headers: []string{"x-shopify-event-id", "e", "x-shopify-topic", "orders/paid"}, events: []Event{{ID: "e", Kind: "orders/paid"}}},
		"GitHubNoDelivery":      {provider: "github", headers: []string{"X-GitHub-Event", "push"}, body: `{}`, err: "no X-GitHub-Delivery header"},
		"StandardNoID":          {provider: "standardwebhooks", headers: []string{"webhook-timestamp", "1"}, body: `{"id":"msg_1"}`, err: "no webhook-id header"},
		"StandardBodyIsNotJSON": {provider: "standardwebhooks", headers: []string{"webhook-id", "msg_1"}, body: "plain", events: []Event{{ID: "msg_1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider, err := ProviderByName(tt.provider)
			require.NoError(t, err)
			headers := make(http.Header)
			for i := 0; i < len(tt.headers); i += 2 {
				headers.Set(tt.headers[i], tt.headers[i+1])
			}
			events, err := identify(provider, headers, []byte(tt.body))
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				require.Empty(t, events)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.events, events)
		})
	}
}

func TestProviderByName_Unknown(t *testing.T) {
	t.Parallel()
	_, err := ProviderByName("mollusc")
	require.ErrorContains(t, err, `unknown provider "mollusc": known are adyen, alipay, github,`)
}

func TestProviders(t *testing.T) {
	t.Parallel()
	for _, p := range providers {
		found, err := ProviderByName(p.Name())
		require.NoError(t, err)
		require.Equal(t, p, found)
		require.Positive(t, p.RetryHorizon(), p.Name())
		require.True(t, p.Answer().Status >= 200 && p.Answer().Status < 300, p.Name())
	}
}
