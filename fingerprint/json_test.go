package fingerprint

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func mustJSON(t *testing.T, body string) string {
	t.Helper()
	sum, err := JSON([]byte(body))
	require.NoError(t, err, "%s", body)
	require.Len(t, sum, Size)
	return string(sum)
}

func mustJSONFields(t *testing.T, body string, pointers ...string) string {
	t.Helper()
	sum, err := JSONFields([]byte(body), pointers...)
	require.NoError(t, err, "%s %q", body, pointers)
	require.Len(t, sum, Size)
	return string(sum)
}

func TestJSONSame(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]string{
		"Layout":    {`{"a":1,"b":[1,2]}`, " {\n\t\"a\": 1 ,\r\n \"b\" : [ 1, 2 ] } "},
		"Order":     {`{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"d":3,"c":2},"a":1}`},
		"Escapes":   {`"é/\u0001"`, `"\u00e9\/\u0001"`},
		"Surrogate": {`"😀"`, `"\ud83d\ude00"`},
		"Numbers":   {`[100,0.1,0]`, `[1e2,1.0E-1,-0]`},
		"Names":     {`{"é":1}`, `{"\u00e9":1}`},
		"Scalar":    {`true`, ` true `},
	} {
		require.Equal(t, mustJSON(t, pair[0]), mustJSON(t, pair[1]), name)
	}
}

func TestJSONDifferent(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, body := range []string{
		`{}`, `[]`, `null`, `false`, `0`, `""`, `"0"`, `[1,2]`, `[2,1]`, `[[1],2]`, `{"a":1}`, `{"a":"1"}`, `{"a":null}`, `{"A":1}`,
		`{"a":{"b":1}}`, `{"a":1,"b":1}`, `"\u00e9"`, `"e\u0301"`, // composed and decomposed
	} {
		sum := mustJSON(t, body)
		require.NotContains(t, seen, sum, "%s", body)
		seen[sum] = body
	}
}

func TestJSONErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, want string }{
		"Empty":            {``, "invalid JSON"},
		"NotJSON":          {`amount=1`, "invalid JSON"},
		"Cut":              {`{"a":1`, "invalid JSON"},
		"Trailing":         {`{} {}`, "invalid JSON"},
		"Comma":            {`[1,]`, "invalid JSON"},
		"LeadingZero":      {`[01]`, "invalid JSON"},
		"Duplicate":        {`{"a":1,"a":1}`, "Duplicate key"},
		"DuplicateEscaped": {`{"a":1,"\u0061":2}`, "Duplicate key"},
		"DuplicateInside":  {`[{"x":{"a":1,"b":2,"a":3}}]`, "Duplicate key"},
		"NotUTF8":          {"\"\xff\"", "no canonical form"},
		"LoneSurrogate":    {`"\ud83d"`, "no canonical form"},
		"OutOfRange":       {`1e400`, "no canonical form"},
		"TooDeep":          {strings.Repeat("[", 10001) + strings.Repeat("]", 10001), "invalid JSON"},
	} {
		_, err := JSON([]byte(c.body))
		require.ErrorContains(t, err, c.want, name)
		_, err = JSONFields([]byte(c.body), "")
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestJSONFields(t *testing.T) {
	t.Parallel()
	const body = `{"id": "evt_1", "amount": {"value": 1200, "currency": "EUR"}, "items": [{"n": 1}, null], "a/b": 1, "m~n": 2, "": 3, "none": null}`

	t.Run("OrderOfPointers", func(t *testing.T) {
		t.Parallel()
		want := mustJSONFields(t, body, "/id", "/amount/value", "/items/0")
		require.Equal(t, want, mustJSONFields(t, body, "/items/0", "/id", "/amount/value"))
		require.Equal(t, want, mustJSONFields(t, body, "/items/0", "/id", "/amount/value", "/id"))
		pointers := []string{"/items/0", "/id"}
		mustJSONFields(t, body, pointers...)
		require.Equal(t, []string{"/items/0", "/id"}, pointers, "the caller's slice stays as it is")
	})

	t.Run("TheRestMayChange", func(t *testing.T) {
		t.Parallel()
		other := `{"amount": {"currency": "USD", "value": 1.2e3}, "sent_at": "later", "id": "evt_1"}`
		require.Equal(t, mustJSONFields(t, body, "/id", "/amount/value"), mustJSONFields(t, other, "/id", "/amount/value"))
		require.NotEqual(t, mustJSONFields(t, body, "/id", "/amount/currency"), mustJSONFields(t, other, "/id", "/amount/currency"))
	})

	t.Run("MissingIsNotNull", func(t *testing.T) {
		t.Parallel()
		sums := map[string]bool{}
		for _, body := range []string{`{}`, `{"a": null}`, `{"a": ""}`, `{"a": {}}`} {
			sums[mustJSONFields(t, body, "/a")] = true
		}
		require.Len(t, sums, 4)
		require.NotEqual(t, mustJSONFields(t, `[]`, "/0"), mustJSONFields(t, `[null]`, "/0"))
	})

	t.Run("WhichMember", func(t *testing.T) {
		t.Parallel()
		require.NotEqual(t, mustJSONFields(t, `{"a": 1}`, "/a", "/b"), mustJSONFields(t, `{"b": 1}`, "/a", "/b"))
	})

	t.Run("Find", func(t *testing.T) {
		t.Parallel()
		canonical, err := canonicalize([]byte(body))
		require.NoError(t, err)
		for pointer, want := range map[string]string{
			"":              string(canonical),
			"/":             "3",
			"/a~1b":         "1",
			"/m~0n":         "2",
			"/none":         "null",
			"/amount":       `{"currency":"EUR","value":1200}`,
			"/amount/value": "1200",
			"/items/0/n":    "1",
			"/items/1":      "null",
			"/items/2":      "",
			"/items/-":      "",
			"/items/00":     "",
			"/items/+1":     "",
			"/items/n":      "",
			"/id/0":         "",
			"/none/x":       "",
			"/nothing/x/y":  "",
		} {
			tokens, err := parsePointer(pointer)
			require.NoError(t, err)
			require.Equal(t, want, string(find(canonical, tokens)), "%q", pointer)
		}
	})

	t.Run("Errors", func(t *testing.T) {
		t.Parallel()
		for _, pointer := range []string{"a", "#/a", "/a~", "/a~2b", "/~~1"} {
			_, err := JSONFields([]byte(body), "/id", pointer)
			require.ErrorContains(t, err, "invalid JSON pointer", "%q", pointer)
		}
		_, err := JSONFields([]byte(body))
		require.ErrorContains(t, err, "no pointers")
	})
}
