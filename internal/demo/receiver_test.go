package demo

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/oncetest"
)

type receiverBundle struct {
	db     *oncetest.DB
	server *httptest.Server
}

// setupReceiver gives a receiver with pgonce, on a database with a scope for each provider.
func setupReceiver(t *testing.T) *receiverBundle {
	t.Helper()
	db := oncetest.Postgres(t)
	_, err := db.Pool.Exec(t.Context(), demoSchema)
	require.NoError(t, err)
	for _, p := range providers {
		_, err := db.Pool.Exec(t.Context(), "SELECT once.create_scope($1, $2, $3)", p.Name(), 2*p.RetryHorizon(), p.RetryHorizon())
		require.NoError(t, err)
	}
	server := httptest.NewServer(&receiver{name: pgonceReceiver, defence: DefencePgonce, pool: db.Pool})
	t.Cleanup(server.Close)
	return &receiverBundle{db: db, server: server}
}

func (b *receiverBundle) post(t *testing.T, path string, headers http.Header, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.server.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header = headers
	resp, err := b.server.Client().Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text)
}

func (b *receiverBundle) grants(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, b.db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM demo.grants").Scan(&n))
	return n
}

// Each provider's callback is answered as the provider wants, the second time from what the first one stored.
func TestReceiver_Answers(t *testing.T) {
	t.Parallel()
	b := setupReceiver(t)
	log, err := BuiltinLog()
	require.NoError(t, err)

	answers := map[string]string{
		"stripe":           `200 {"received":true}`,
		"paypal_webhook":   "200 ",
		"paypal_ipn":       "200 ",
		"adyen":            "200 [accepted]",
		"alipay":           "200 success",
		"wechatpay_v3":     "204 ",
		"square":           "200 ",
		"shopify":          "200 ",
		"github":           "202 ",
		"standardwebhooks": "204 ",
	}
	for _, d := range log {
		want, first := answers[d.Provider.Name()]
		if !first {
			continue
		}
		delete(answers, d.Provider.Name())

		var coupons []string
		for _, outcome := range []string{"fresh", "replay"} {
			resp, body := b.post(t, "/callbacks/"+d.Provider.Name(), d.Headers, string(d.Body))
			require.Equal(t, want, resp.Status[:4]+body, d.Provider.Name())
			outcomes := strings.TrimSuffix(strings.Repeat(outcome+",", len(d.Events)), ",")
			require.Equal(t, outcomes, resp.Header.Get(headerOutcome), d.Provider.Name())
			coupons = append(coupons, resp.Header.Get(headerCoupon))
		}
		require.NotEmpty(t, coupons[0])
		require.Equal(t, coupons[0], coupons[1], d.Provider.Name())
	}
	require.Empty(t, answers)
	require.Equal(t, len(providers)+1, b.grants(t), "the Adyen callback holds two events")
}

func TestReceiver_Refuses(t *testing.T) {
	t.Parallel()
	b := setupReceiver(t)

	for name, tt := range map[string]struct {
		path, body string
		status     int
		text       string
	}{
		"UnknownProvider": {"/callbacks/mollusc", `{"id":"evt_1"}`, http.StatusNotFound, `unknown provider "mollusc"`},
		"OtherPath":       {"/", `{"id":"evt_1"}`, http.StatusNotFound, "404 page not found"},
		"NoIdentity":      {"/callbacks/stripe", `{"object":"event"}`, http.StatusBadRequest, "stripe callback: the body has no id"},
		"NoHeader":        {"/callbacks/github", `{"id":"evt_1"}`, http.StatusBadRequest, "github callback: no X-GitHub-Delivery header"},
		"SecondItem": {
			"/callbacks/adyen",
			`{"notificationItems":[{"NotificationRequestItem":{"pspReference":"A","eventCode":"CAPTURE","success":"true"}},{}]}`,
			http.StatusBadRequest, "notificationItems[1] has no pspReference",
		},
		"TooLarge": {"/callbacks/stripe", `{"id":"evt_1"}` + strings.Repeat(" ", maxBody), http.StatusBadRequest, "request body too large"},
	} {
		resp, text := b.post(t, tt.path, http.Header{}, tt.body)
		require.Equal(t, tt.status, resp.StatusCode, name)
		require.Contains(t, text, tt.text, name)
	}
	require.Zero(t, b.grants(t))
}
