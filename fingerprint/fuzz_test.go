package fingerprint

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// Fields is injective: two lists have one digest only if they are one list.
func FuzzFields(f *testing.F) {
	f.Add("ab,c", "a,bc", ",")
	f.Add("", ",", ",")
	f.Add("a\x00b", "a", "\x00")
	f.Fuzz(func(t *testing.T, a, b, separator string) {
		x, y := strings.Split(a, separator), strings.Split(b, separator)
		if same := reflect.DeepEqual(x, y); same != bytes.Equal(Fields(x...), Fields(y...)) {
			t.Errorf("%q and %q: same is %v", x, y, same)
		}
	})
}

// What JSON takes, it takes in every layout, with the same digest; and what it takes has the same meaning to encoding/json.
func FuzzJSON(f *testing.F) {
	for _, body := range []string{
		`{"b": [1, 2.50, -0, 1e21], "a": "é\u0000\ud83d\ude00"}`, `[]`, `null`, ` "x" `, `{"a":{"a":{}}}`, `{"a":1,"\u0061":2}`, `1e400`, `{`, "\"\xff\"",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sum, err := JSON(body)
		if err != nil {
			return
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, body, "\t", "  "); err != nil {
			t.Fatalf("%q is taken, but not JSON: %v", body, err)
		}
		again, err := JSON(indented.Bytes())
		if err != nil || !bytes.Equal(sum, again) {
			t.Errorf("%q and %q differ: %v", body, indented.Bytes(), err)
		}
		canonical, err := canonicalize(body)
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if json.Unmarshal(body, &want) != nil || json.Unmarshal(canonical, &got) != nil || !reflect.DeepEqual(want, got) {
			t.Errorf("%q means something else than %q", canonical, body)
		}
	})
}

// A member is found under the pointer that is made of its name, whatever the name, and found missing without it.
func FuzzJSONFields(f *testing.F) {
	for _, name := range []string{"a", "", "a/b", "m~n", "~1", "é", "\x00", "0"} {
		f.Add(name, "value")
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		name, value = strings.ToValidUTF8(name, "?"), strings.ToValidUTF8(value, "?")
		body, err := json.Marshal(map[string]any{name: value, name + "other": 1})
		if err != nil {
			t.Fatal(err)
		}
		pointer := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		got, err := JSONFields(body, pointer)
		if err != nil {
			t.Fatal(err)
		}
		canonical, err := canonicalize([]byte(mustMarshal(t, value)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, Fields(pointer, string(canonical))) {
			t.Errorf("%s of %s is not %q", pointer, body, value)
		}
		missing, err := JSONFields([]byte(`{}`), pointer)
		if err != nil || !bytes.Equal(missing, Fields(pointer, "")) {
			t.Errorf("%s of {} is not missing: %v", pointer, err)
		}
	})
}

func mustMarshal(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
