package demo

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"

	"golang.org/x/text/encoding/htmlindex"
)

// parseForm reads a form body whose percent-encoded bytes are in the charset that the form's own field charset names,
// or else the Content-Type, or else UTF-8. The values come back as UTF-8, the first one of each field.
func parseForm(headers http.Header, body []byte) (map[string]string, error) {
	raw, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, fmt.Errorf("the form: %w", err)
	}
	charset := raw.Get("charset")
	if charset == "" {
		if _, params, err := mime.ParseMediaType(headers.Get("Content-Type")); err == nil {
			charset = params["charset"]
		}
	}
	if charset == "" {
		charset = "utf-8"
	}
	encoding, err := htmlindex.Get(charset)
	if err != nil {
		return nil, fmt.Errorf("the form's charset %q is unknown", charset)
	}

	form := make(map[string]string, len(raw))
	for name, values := range raw {
		value, err := encoding.NewDecoder().String(values[0])
		if err != nil {
			return nil, fmt.Errorf("the form's field %s is not %s: %w", name, charset, err)
		}
		form[name] = value
	}
	return form, nil
}

// need returns the fields, or an error that names the first one missing or empty.
func need(form map[string]string, names ...string) ([]string, error) {
	values := make([]string, len(names))
	for i, name := range names {
		if values[i] = form[name]; values[i] == "" {
			return nil, fmt.Errorf("the form has no %s", name)
		}
	}
	return values, nil
}
