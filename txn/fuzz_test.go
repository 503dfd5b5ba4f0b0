package txn_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// notText is PostgreSQL's own refusal of bytes that are no text of the database's encoding (UTF-8, without NUL): no function
// gets to see them.
const notText = "22021"

func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// oddTexts are texts that systems are known to store otherwise than they were given.
var oddTexts = []string{
	"", " ", "k ", " k", "\t\n", "\r\n", "\x00", "k\x00", "\xff", "\xc3(", "\xed\xa0\x80", "\ufffd", "\ufeffk", "\u202ek", "\x01\x1f\x7f\u0085",
	"\u00c5", "A\u030a", "\u212b", "\ufb01", "İ", "ß", "☃", "😀", "a'b", `"\`, `\x41`, "b%_;--", "%s%d", "$1", "'; DROP SCHEMA once CASCADE; --",
	"constructor", "__proto__", "pg_temp", "null", "NULL", "NaN", "0", "-0", "1e400", "true", "{}", "[]",
	`{"a": 1, "a": 2}`, `{"b":1,"a":[123456789012345678901234567890.10, 1e-400]}`, `"\u0000"`, `"\ud800"`, `"\ud83d\ude00"`, "\"\xff\"", `"<&>\u2028"`,
	strings.Repeat("[", 10000) + strings.Repeat("]", 10000),
	strings.Repeat("k", 63), strings.Repeat("k", 64), strings.Repeat("k", 255), strings.Repeat("k", 256), strings.Repeat("☃", 85), strings.Repeat("☃", 86),
	strings.Repeat("k", 1<<20),
}

// calls counts the inputs of this process: no two of them have one key.
var calls atomic.Int64

func newKey() string { return fmt.Sprint("k", calls.Add(1)) }

// FuzzKey: a key and subject that Validate lets through are stored and found again in every form of claim, byte for byte, and
// no others with them; what it refuses is refused by everything.
func FuzzKey(f *testing.F) {
	for i, text := range oddTexts {
		f.Add("", text, byte(i))
		f.Add(text, "k", byte(i))
	}
	f.Add("k", "", byte(0))
	f.Add("A\u030a", "\u00c5", byte(4))
	s := newShop(f)
	f.Fuzz(func(t *testing.T, subject, key string, n byte) {
		form := forms[int(n)%len(forms)]
		name := pgonce.Key{Scope: "orders", Subject: subject, Key: key}
		req := txn.Request{Scope: name.Scope, Subject: subject, Key: key}
		if err := name.Validate(); err != nil {
			code := pgonce.Code(err)
			_, err = txn.Run(t.Context(), s.Pool, req, never[[]byte](t))
			require.Equal(t, code, pgonce.Code(err))
			if _, err = form.do(t.Context(), s.Pool, req, never[string](t)); !isText(subject) || !isText(key) {
				require.Contains(t, []string{code, notText}, pgonce.Code(err), "%v", err)
			} else {
				require.Equal(t, code, pgonce.Code(err), "%v", err)
			}
			return
		}
		value := subject + "\x00" + key
		work := func(context.Context, pgx.Tx) (string, error) { return value, nil }
		first := form.must(t, s.Pool, req, work)
		require.Contains(t, []pgonce.Outcome{pgonce.Fresh, pgonce.Replay}, first.Outcome)
		for _, other := range forms {
			again := other.must(t, s.Pool, req, never[string](t))
			require.Equal(t, pgonce.Replay, again.Outcome, other.name)
			require.Contains(t, []string{"", value}, again.Value, other.name)
			if first.Outcome == pgonce.Fresh && other.name != "Consume" { // which gives none
				require.Equal(t, form.stored(value), again.Value, other.name)
			}
		}
		record, found, err := txn.Lookup(t.Context(), s.Pool, name)
		require.NoError(t, err)
		require.True(t, found)
		if first.Outcome == pgonce.Fresh && form.keeps {
			var stored string
			require.NoError(t, record.Decode(nil, &stored))
			require.Equal(t, value, stored)
		}
		var rows int
		const count = "SELECT count(*) FROM once_data.orders WHERE convert_to(subject, 'UTF8') = $1 AND convert_to(key, 'UTF8') = $2"
		require.NoError(t, s.Pool.QueryRow(t.Context(), count, []byte(subject), []byte(key)).Scan(&rows))
		require.Equal(t, 1, rows)
	})
}

// FuzzFingerprint: a fingerprint is any bytes, of any length; the same one is a replay, another one a mismatch, none is not
// compared.
func FuzzFingerprint(f *testing.F) {
	for i, text := range oddTexts {
		f.Add([]byte(text), []byte(oddTexts[(i+1)%len(oddTexts)]), byte(i))
	}
	f.Add([]byte{0}, []byte{0, 0}, byte(0))
	f.Add([]byte("A\u030a"), []byte("\u00c5"), byte(1))
	s := newShop(f)
	f.Fuzz(func(t *testing.T, first, second []byte, n byte) {
		writer, reader := forms[int(n)%len(forms)], forms[int(n)/len(forms)%len(forms)]
		req := request(newKey())
		req.Fingerprint = append([]byte{}, first...) // not nil
		require.Equal(t, pgonce.Fresh, writer.must(t, s.Pool, req, ordering(req.Key)).Outcome)
		record, _, err := txn.Lookup(t.Context(), s.Pool, pgonce.Key{Scope: "orders", Key: req.Key})
		require.NoError(t, err)
		require.Equal(t, req.Fingerprint, record.Fingerprint)

		require.Equal(t, pgonce.Replay, reader.must(t, s.Pool, req, never[string](t)).Outcome)
		req.Fingerprint = append([]byte{}, second...)
		want := answer{Outcome: pgonce.Mismatch}
		if bytes.Equal(first, second) {
			want = answer{pgonce.Replay, reader.stored(writer.stored("value of " + req.Key))}
		}
		require.Equal(t, want, valueOf(reader, reader.must(t, s.Pool, req, never[string](t))))
		req.Fingerprint = nil
		require.Equal(t, pgonce.Replay, reader.must(t, s.Pool, req, never[string](t)).Outcome)
	})
}

// rawResult is stored as it is, with its own content type.
type rawResult struct {
	Data        string
	ContentType string
}

type rawCodec struct{}

func (rawCodec) Encode(value any) ([]byte, string, error) {
	raw := value.(rawResult)
	return []byte(raw.Data), raw.ContentType, nil
}

func (rawCodec) Decode(data []byte, contentType string, into any) error {
	*into.(*rawResult) = rawResult{string(data), contentType}
	return nil
}

// FuzzResult: bytes of any content, up to the limit, are replayed as they are, with their content type and metadata; beyond it
// their size is. What cannot be stored is refused, and nothing is left of the operation.
func FuzzResult(f *testing.F) {
	const limit = 4096
	for i, text := range oddTexts {
		f.Add(text, "text/plain", "", byte(i))
		f.Add("result", text, "", byte(i))
		f.Add("result", "text/plain", text, byte(i))
	}
	for n := limit - 1; n <= limit+1; n++ {
		for variant := range byte(4) {
			f.Add(strings.Repeat("\x00", n), "", "{}", variant)
		}
	}
	f.Add("", "", `{"status": 200, "status": 201}`, byte(0))
	s := newShop(f)
	s.exec(fmt.Sprintf("SELECT once.alter_scope('orders', p_max_result_bytes => %d)", limit))
	f.Fuzz(func(t *testing.T, data, contentType, meta string, variant byte) {
		ctx := t.Context()
		req := request(newKey())
		req.Codec, req.Meta = rawCodec{}, []byte(meta)
		if meta == "" {
			req.Meta = nil
		}
		value := rawResult{data, contentType}
		refused := variant%4 == 3 // a final refusal with this text
		var refusals []string
		if !refused {
			if !isText(contentType) {
				refusals = append(refusals, notText)
			} else if len(contentType) > 255 {
				refusals = append(refusals, pgonce.CodeInvalidArgument)
			}
		}
		if code := badMeta(t, s, meta); code != "" {
			refusals = append(refusals, code)
		}

		var err error
		work := func(ctx context.Context, tx pgx.Tx) (rawResult, error) {
			_, err := order(req.Key)(ctx, tx)
			if err == nil && refused {
				err = txn.Final(errors.New(data))
			}
			return value, err
		}
		var first txn.Result[rawResult]
		switch variant % 4 {
		case 1: // the row is written by the claim, not by the completion
			req.TxOptions.IsoLevel = pgx.RepeatableRead
			first, err = txn.Run(ctx, s.Pool, req, work)
		case 2:
			err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
				claimed, err := txn.Claim(ctx, tx, req)
				if err != nil {
					return err
				}
				if _, err := order(req.Key)(ctx, tx); err != nil {
					return err
				}
				return claimed.Complete(ctx, value)
			})
			first = txn.Result[rawResult]{Outcome: pgonce.Fresh, Value: value}
		default:
			first, err = txn.Run(ctx, s.Pool, req, work)
		}
		orders := s.countIn(t, "public.orders WHERE ref = $1", req.Key)
		if len(refusals) > 0 {
			require.Contains(t, refusals, pgonce.Code(err), "%v", err)
			require.Zero(t, orders)
			require.Zero(t, s.countIn(t, "once_data.orders WHERE key = $1", req.Key))
			return
		}

		req.TxOptions = pgx.TxOptions{}
		again, errAgain := txn.Run(ctx, s.Pool, req, never[rawResult](t))
		record, found, errLookup := txn.Lookup(ctx, s.Pool, pgonce.Key{Scope: "orders", Key: req.Key})
		require.NoError(t, errLookup)
		require.True(t, found)
		if len(data) > limit {
			require.Nil(t, record.Result)
			require.EqualValues(t, len(data), record.OmittedBytes)
		} else {
			require.Equal(t, data, string(record.Result))
			require.Zero(t, record.OmittedBytes)
		}
		if meta == "" {
			require.Nil(t, record.Meta)
		} else {
			require.Equal(t, 1, s.countIn(t, "once_data.orders WHERE key = $1 AND meta = $2::text::jsonb", req.Key, meta))
		}

		if refused {
			require.Zero(t, orders)
			for i, err := range []error{err, errAgain} {
				var failed *pgonce.FailedError
				require.ErrorAs(t, err, &failed)
				require.Equal(t, i == 1, failed.Replayed)
				if i == 0 || len(data) <= limit {
					require.Equal(t, data, failed.Message)
				}
			}
			return
		}
		require.NoError(t, err)
		require.Equal(t, 1, orders)
		require.Equal(t, value, first.Value)
		require.Equal(t, pgonce.Replay, again.Outcome)
		require.Equal(t, contentType, record.ContentType)
		if len(data) > limit {
			var omitted *pgonce.ResultOmittedError
			require.ErrorAs(t, errAgain, &omitted)
			require.EqualValues(t, len(data), omitted.Bytes)
			return
		}
		require.NoError(t, errAgain)
		require.Equal(t, value, again.Value)
	})
}

// badMeta is the code that a Meta is refused with, empty if it is not. What PostgreSQL can hold as jsonb only it knows: no NUL
// in strings, no half of a surrogate pair, no number beyond its numeric, no depth beyond its stack.
func badMeta(t *testing.T, s *shop, meta string) string {
	t.Helper()
	if meta == "" {
		return ""
	}
	if !json.Valid([]byte(meta)) {
		return pgonce.CodeInvalidArgument
	}
	var size int
	if err := s.Pool.QueryRow(t.Context(), "SELECT octet_length($1::text::jsonb::text)", meta).Scan(&size); err != nil {
		return pgonce.Code(err)
	}
	if size > 16384 {
		return pgonce.CodeInvalidArgument
	}
	return ""
}

// countIn is count for a test that shares the shop.
func (s *shop) countIn(t testing.TB, sql string, args ...any) int {
	return (&shop{s.DB, t, s.direct}).count(sql, args...)
}

// FuzzJSON: what the default codec can write is replayed as it wrote it: documents but for white space, texts as they are,
// except that bytes which are no UTF-8 become U+FFFD, as in encoding/json. What it cannot write leaves nothing.
func FuzzJSON(f *testing.F) {
	for _, text := range oddTexts {
		f.Add(text)
	}
	const limit = 1 << 20
	f.Add(strings.Repeat("k", limit-2))
	f.Add(strings.Repeat("k", limit-1))
	s := newShop(f)
	f.Fuzz(func(t *testing.T, text string) {
		document := request(newKey())
		first, err := txn.Run(t.Context(), s.Pool, document, func(context.Context, pgx.Tx) (json.RawMessage, error) { return json.RawMessage(text), nil })
		encoded, encodeErr := json.Marshal(json.RawMessage(text))
		if encodeErr != nil {
			require.ErrorContains(t, err, "encode result")
			require.Zero(t, s.countIn(t, "once_data.orders WHERE key = $1", document.Key))
		} else {
			require.NoError(t, err)
			require.Equal(t, text, string(first.Value))
			requireReplayed(t, s, document, json.RawMessage(encoded), len(encoded) > limit)
		}

		plain := request(newKey())
		_, err = txn.Run(t.Context(), s.Pool, plain, func(context.Context, pgx.Tx) (string, error) { return text, nil })
		require.NoError(t, err)
		encoded, err = json.Marshal(text)
		require.NoError(t, err)
		requireReplayed(t, s, plain, string([]rune(text)), len(encoded) > limit) // a rune for each byte that is none
	})
}

func requireReplayed[T any](t *testing.T, s *shop, req txn.Request, want T, omitted bool) {
	t.Helper()
	again, err := txn.Run(t.Context(), s.Pool, req, never[T](t))
	if omitted {
		require.ErrorIs(t, err, pgonce.ErrResultOmitted)
		return
	}
	require.NoError(t, err)
	require.Equal(t, pgonce.Replay, again.Outcome)
	require.Equal(t, want, again.Value)
}
