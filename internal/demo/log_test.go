package demo

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuiltinLog(t *testing.T) {
	t.Parallel()

	log, err := BuiltinLog()
	require.NoError(t, err)
	report := summarise(log)
	require.Equal(t, 61, report.Deliveries)
	require.Equal(t, 17, report.Unique)
	require.Len(t, report.Providers, len(providers))

	// Some deliveries of an event differ in their bytes: an identity that is a digest of them would fail.
	bodies := make(map[eventKey]map[string]bool)
	for _, d := range log {
		for _, key := range d.keys() {
			if bodies[key] == nil {
				bodies[key] = make(map[string]bool)
			}
			bodies[key][string(d.Body)] = true
		}
	}
	differ := make(map[string]bool)
	for key, b := range bodies {
		differ[key.provider] = differ[key.provider] || len(b) > 1
	}
	require.True(t, differ["stripe"])
	require.True(t, differ["alipay"])
}

// writeLog writes a log of the lines into a folder named streams, beside callbacks/body.json.
func writeLog(t *testing.T, lines ...string) string {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "streams"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "callbacks"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "callbacks", "body.json"), []byte(testBody), 0o600))
	path := filepath.Join(folder, "streams", "log.ndjson")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	return path
}

const testBody = `{"id":"evt_1","type":"charge.succeeded"}`

// line is a good line of a log, with changes: pairs of an old text and a new one.
func line(seq int, changes ...string) string {
	good := fmt.Sprintf(`{"seq":%d,"received_at":"2026-03-02T09:00:%02d.000Z","provider":"stripe","body_file":"callbacks/body.json","body_sha256":"%x","headers":{}}`,
		seq, seq, sha256.Sum256([]byte(testBody)))
	return strings.NewReplacer(changes...).Replace(good)
}

func TestReadLog(t *testing.T) {
	t.Parallel()

	other := `{"id":"evt_2"}`
	path := writeLog(t,
		line(1),
		"",
		line(3,
			`"headers":{}`, `"headers":{"x-one":"1"},"body_b64":"eyJpZCI6ImV2dF8yIn0="`,
			fmt.Sprintf("%x", sha256.Sum256([]byte(testBody))), fmt.Sprintf("%x", sha256.Sum256([]byte(other)))),
		"")
	log, err := ReadLog(path)
	require.NoError(t, err)
	require.Len(t, log, 2)
	require.Equal(t, testBody, string(log[0].Body))
	require.Equal(t, []Event{{ID: "evt_1", Kind: "charge.succeeded"}}, log[0].Events)
	require.Equal(t, 3, log[1].Line)
	require.Equal(t, other, string(log[1].Body))
	require.Equal(t, "1", log[1].Headers.Get("X-One"))
}

// A log that is not in a folder named streams has its bodies beside it.
func TestReadLog_BesideBodies(t *testing.T) {
	t.Parallel()
	path := writeLog(t, line(1))
	moved := filepath.Join(filepath.Dir(filepath.Dir(path)), "log.ndjson")
	require.NoError(t, os.Rename(path, moved))
	_, err := ReadLog(moved)
	require.NoError(t, err)
}

func TestReadLog_Broken(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		lines []string
		err   string
	}{
		"Empty":           {[]string{""}, "log.ndjson: no deliveries in it"},
		"NotJSON":         {[]string{line(1), "seq=2"}, "log.ndjson:2: not a delivery: invalid character"},
		"NoSeq":           {[]string{line(1, `"seq":1,`, "")}, ":1: no seq"},
		"SeqRepeats":      {[]string{line(1), "", line(1)}, ":3: seq 1 follows 1"},
		"TimeGoesBack":    {[]string{line(1), line(2, "09:00:02", "08:00:02")}, ":2: received_at is before"},
		"NoTime":          {[]string{line(1, "2026-03-02T", "yesterday ")}, ":1: received_at: parsing time"},
		"UnknownProvider": {[]string{line(1), line(2, "stripe", "mollusc")}, `:2: unknown provider "mollusc"`},
		"OtherBody":       {[]string{line(1), line(2, fmt.Sprintf("%x", sha256.Sum256([]byte(testBody))), "00")}, `:2: the body's SHA-256 is `},
		"NoBodyFile":      {[]string{line(1, "body.json", "missing.json")}, ":1: body_file: open callbacks/missing.json"},
		"NoBody":          {[]string{line(1, `"body_file":"callbacks/body.json",`, "")}, ":1: neither body_file nor body_b64"},
		"BodyOutside":     {[]string{line(1, "callbacks/", "../callbacks/")}, `:1: body_file "../callbacks/body.json" leaves the log's folder`},
		"BodyAbsolute":    {[]string{line(1, "callbacks/", "/etc/")}, `:1: body_file "/etc/body.json" leaves the log's folder`},
		"BadBase64":       {[]string{line(1, `"headers":{}`, `"headers":{},"body_b64":"?"`)}, ":1: not a delivery: illegal base64"},
		"NoIdentity":      {[]string{line(1), line(2, "stripe", "square")}, ":2: square callback: the body has no event_id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ReadLog(writeLog(t, tt.lines...))
			require.ErrorContains(t, err, tt.err)
		})
	}

	_, err := ReadLog(filepath.Join(t.TempDir(), "none.ndjson"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// sharedLog is the path of a log of real callbacks, which is no part of this repository.
func sharedLog(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("PGONCE_SHARED_DATA")
	if folder == "" {
		folder = filepath.FromSlash("../../../shared/data")
	}
	path := filepath.Join(folder, "streams", "derived_delivery_log.ndjson")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("PGONCE_SHARED_DATA is not set, and %v", err)
	}
	return path
}

func TestReadLog_RealCallbacks(t *testing.T) {
	t.Parallel()

	path := sharedLog(t)
	text, err := os.ReadFile(strings.TrimSuffix(path, ".ndjson") + ".expected.json")
	require.NoError(t, err)
	type event struct {
		Provider   string `json:"provider"`
		Identity   string `json:"identity"`
		FirstSeq   int    `json:"first_seq"`
		Deliveries int    `json:"deliveries"`
	}
	var want struct {
		Deliveries     int     `json:"deliveries"`
		DistinctEvents int     `json:"distinct_events"`
		Events         []event `json:"events"`
	}
	require.NoError(t, json.Unmarshal(text, &want))

	log, err := ReadLog(path)
	require.NoError(t, err)
	var got []event
	index := make(map[eventKey]int)
	for _, d := range log {
		for _, key := range d.keys() {
			if _, found := index[key]; !found {
				index[key] = len(got)
				got = append(got, event{Provider: key.provider, Identity: key.id, FirstSeq: d.Seq})
			}
			got[index[key]].Deliveries++
		}
	}
	require.Equal(t, want.Events, got)

	report := summarise(log)
	require.Equal(t, want.Deliveries, report.Deliveries)
	require.Equal(t, want.DistinctEvents, report.Unique)
}
