package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgonce/pgonce"
)

// Event is one thing that a provider tells of: what must be granted once, however often it is delivered.
type Event struct {
	// ID is the provider's own identity of the event, the same in every delivery of it. It becomes the key.
	ID string
	// Kind is the provider's word for what happened.
	Kind string
	// Note is a piece of text for humans, empty where the provider sends none.
	Note string
}

// Provider knows how one provider's callbacks are told apart, and how it wants them answered. Signatures are not its
// business: a receiver checks them before it looks at anything else, but a log's are long out of date.
type Provider interface {
	// Name is the provider's name in a delivery log. It is the name of its scope, too.
	Name() string
	// RetryHorizon is how long the provider may still redeliver an event, by itself or by hand.
	RetryHorizon() time.Duration
	// Identity finds the events of one delivery: at least one, in the order of the body. The error says what is
	// missing or malformed.
	Identity(headers http.Header, body []byte) ([]Event, error)
	// Answer is what the provider takes as received. Any other answer makes it deliver again.
	Answer() Answer
}

// Answer is an HTTP response.
type Answer struct {
	Status      int
	ContentType string
	Body        string
}

// providers are all that the demo knows.
var providers = []Provider{
	stripe{}, payPalWebhook{}, payPalIPN{}, adyen{}, alipay{}, weChatPay{}, square{}, shopify{}, gitHub{}, standardWebhooks{},
}

const day = 24 * time.Hour

// ProviderByName finds a provider by its name in a delivery log.
func ProviderByName(name string) (Provider, error) {
	var names []string
	for _, p := range providers {
		if p.Name() == name {
			return p, nil
		}
		names = append(names, p.Name())
	}
	slices.Sort(names)
	return nil, fmt.Errorf("unknown provider %q: known are %s", name, strings.Join(names, ", "))
}

// identify is [Provider.Identity] with an identity that can be a key, or an error that names the provider.
func identify(p Provider, headers http.Header, body []byte) ([]Event, error) {
	events, err := p.Identity(headers, body)
	if err == nil && len(events) == 0 {
		err = errors.New("no event in it")
	}
	for i, e := range events {
		switch {
		case len(e.ID) > pgonce.MaxKeyLen:
			err = errors.Join(err, fmt.Errorf("the identity is longer than %d bytes", pgonce.MaxKeyLen))
		case !utf8.ValidString(e.ID) || strings.ContainsRune(e.ID, 0):
			err = errors.Join(err, fmt.Errorf("the identity %q is not text", e.ID))
		}
		events[i].Note = storable(e.Note)
	}
	if err != nil {
		return nil, fmt.Errorf("%s callback: %w", p.Name(), err)
	}
	return events, nil
}

// storable is the part of a text that PostgreSQL can store.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
}

// decodeJSON is for bodies whose identity is a field: v has just the fields that matter.
func decodeJSON(body []byte, v any) error {
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("the body: %w", err)
	}
	return nil
}

// bodyID is the identity where it is one field of a JSON body.
func bodyID(field, id, kind, note string) ([]Event, error) {
	if id == "" {
		return nil, fmt.Errorf("the body has no %s", field)
	}
	return []Event{{ID: id, Kind: kind, Note: note}}, nil
}

// headerID is the identity where it is one header.
func headerID(headers http.Header, name, kind string) ([]Event, error) {
	id := strings.TrimSpace(headers.Get(name))
	if id == "" {
		return nil, fmt.Errorf("no %s header", name)
	}
	return []Event{{ID: id, Kind: kind}}, nil
}
