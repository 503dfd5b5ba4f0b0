package demo

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// builtin is the delivery log that the demo carries: invented values in the providers' real formats.
//
//go:embed log
var builtin embed.FS

// Delivery is one line of a delivery log: one callback as it was received.
type Delivery struct {
	Line       int // in the file, from 1
	Seq        int
	ReceivedAt time.Time
	Provider   Provider
	Headers    http.Header
	Body       []byte
	Events     []Event
}

// record is a line of the log as written.
type record struct {
	Seq        int               `json:"seq"`
	ReceivedAt string            `json:"received_at"`
	Provider   string            `json:"provider"`
	BodyFile   string            `json:"body_file"`
	BodySHA256 string            `json:"body_sha256"`
	BodyB64    *[]byte           `json:"body_b64"` // the body, where it differs from the file's
	Headers    map[string]string `json:"headers"`
}

// BuiltinLog reads the log that the demo carries.
func BuiltinLog() ([]Delivery, error) {
	base, err := fs.Sub(builtin, "log")
	if err != nil {
		return nil, err
	}
	text, err := fs.ReadFile(base, "streams/delivery_log.ndjson")
	if err != nil {
		return nil, err
	}
	return parseLog("built-in log", text, base)
}

// ReadLog reads a delivery log: one JSON object per line with seq (rising), received_at (RFC 3339, not falling),
// provider, headers, body_sha256, and the body as body_file or body_b64. The path in body_file is relative to the
// log's folder or, where that folder is named streams, to the one above it. Errors name file and line; a log with
// a delivery that no provider's rules identify is refused as a whole.
func ReadLog(path string) ([]Delivery, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if filepath.Base(folder) == "streams" {
		folder = filepath.Dir(folder)
	}
	return parseLog(path, text, os.DirFS(folder))
}

func parseLog(name string, text []byte, base fs.FS) ([]Delivery, error) {
	var deliveries []Delivery
	line := 0
	for row := range bytes.Lines(text) {
		line++
		if len(bytes.TrimSpace(row)) == 0 {
			continue
		}
		d, err := parseDelivery(row, base)
		if err == nil && len(deliveries) > 0 {
			err = follows(deliveries[len(deliveries)-1], d)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		d.Line = line
		deliveries = append(deliveries, d)
	}
	if len(deliveries) == 0 {
		return nil, fmt.Errorf("%s: no deliveries in it", name)
	}
	return deliveries, nil
}

func follows(previous, d Delivery) error {
	if d.Seq <= previous.Seq {
		return fmt.Errorf("seq %d follows %d: it must rise", d.Seq, previous.Seq)
	}
	if d.ReceivedAt.Before(previous.ReceivedAt) {
		return errors.New("received_at is before the previous delivery's")
	}
	return nil
}

func parseDelivery(row []byte, base fs.FS) (d Delivery, err error) {
	var r record
	if err := json.Unmarshal(row, &r); err != nil {
		return d, fmt.Errorf("not a delivery: %w", err)
	}
	if r.Seq <= 0 {
		return d, errors.New("no seq, or not positive")
	}
	d.Seq = r.Seq
	if d.ReceivedAt, err = time.Parse(time.RFC3339, r.ReceivedAt); err != nil {
		return d, fmt.Errorf("received_at: %w", err)
	}
	if d.Provider, err = ProviderByName(r.Provider); err != nil {
		return d, err
	}
	d.Headers = make(http.Header, len(r.Headers))
	for name, value := range r.Headers {
		d.Headers.Set(name, value)
	}
	if d.Body, err = r.body(base); err != nil {
		return d, err
	}
	if sum := sha256.Sum256(d.Body); hex.EncodeToString(sum[:]) != r.BodySHA256 {
		return d, fmt.Errorf("the body's SHA-256 is %x, body_sha256 says %q", sum, r.BodySHA256)
	}
	d.Events, err = identify(d.Provider, d.Headers, d.Body)
	return d, err
}

func (r record) body(base fs.FS) ([]byte, error) {
	if r.BodyB64 != nil {
		return *r.BodyB64, nil
	}
	if r.BodyFile == "" {
		return nil, errors.New("neither body_file nor body_b64")
	}
	body, err := fs.ReadFile(base, r.BodyFile)
	if errors.Is(err, fs.ErrInvalid) {
		return nil, fmt.Errorf("body_file %q leaves the log's folder, or is not a plain relative path", r.BodyFile)
	}
	if err != nil {
		return nil, fmt.Errorf("body_file: %w", err)
	}
	return body, nil
}

// eventKey tells events of all providers apart.
type eventKey struct{ provider, id string }

func (d Delivery) keys() []eventKey {
	keys := make([]eventKey, len(d.Events))
	for i, e := range d.Events {
		keys[i] = eventKey{d.Provider.Name(), e.ID}
	}
	return keys
}
