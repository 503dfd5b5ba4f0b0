package fingerprint

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"
)

// JSON digests a JSON value in its canonical form (RFC 8785), so that layout, order of members and spelling of strings and
// numbers do not count. The value may be of any type.
//
// Invalid JSON is an error, and so is a member name that occurs twice in one object, because readers disagree about what
// that means. Numbers are doubles, as RFC 8785 has it: integers beyond 2^53 that no double tells apart have one digest, and
// numbers out of a double's range are errors. Send such numbers as strings, or use [Bytes].
func JSON(body []byte) ([]byte, error) {
	canonical, err := canonicalize(body)
	if err != nil {
		return nil, err
	}
	return Bytes(canonical), nil
}

// JSONFields digests chosen values of a JSON body, each named by a JSON Pointer (RFC 6901): "/amount/value", "/items/0".
// "" is the whole body. Everything else in the body may change freely, but the body must be valid as for [JSON].
//
// A value that is missing is told apart from one that is null. The order of the pointers does not matter, nor whether one is
// given twice. Without any pointer, and for a pointer that is malformed, the error says so.
func JSONFields(body []byte, pointers ...string) ([]byte, error) {
	if len(pointers) == 0 {
		return nil, errors.New("fingerprint: no pointers: a digest of nothing tells no requests apart")
	}
	canonical, err := canonicalize(body)
	if err != nil {
		return nil, err
	}
	pointers = slices.Clone(pointers)
	slices.Sort(pointers)
	var fields []string
	for _, pointer := range slices.Compact(pointers) {
		tokens, err := parsePointer(pointer)
		if err != nil {
			return nil, err
		}
		// No canonical value is empty, so an empty one stands for missing.
		fields = append(fields, pointer, string(find(canonical, tokens)))
	}
	return Fields(fields...), nil
}

func canonicalize(body []byte) ([]byte, error) {
	// What the standard library does not take for JSON does not get past here. It says where it stops, too.
	if err := json.Unmarshal(body, new(json.RawMessage)); err != nil {
		return nil, fmt.Errorf("fingerprint: invalid JSON: %w", err)
	}
	canonical, err := jcs.Transform(body)
	if err != nil {
		return nil, fmt.Errorf("fingerprint: no canonical form: %w", err)
	}
	return canonical, nil
}

// parsePointer returns the reference tokens of a pointer, unescaped.
func parsePointer(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, fmt.Errorf("fingerprint: invalid JSON pointer %q: it must be empty or begin with /", pointer)
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	tokens := strings.Split(pointer[1:], "/")
	for i, token := range tokens {
		rest := unescape.Replace(token)
		if strings.Contains(strings.NewReplacer("~1", "", "~0", "").Replace(token), "~") {
			return nil, fmt.Errorf("fingerprint: invalid JSON pointer %q: ~ must be written ~0, / in a name ~1", pointer)
		}
		tokens[i] = rest
	}
	return tokens, nil
}

// find returns the value at the end of the tokens, nil if there is none. Parts of a canonical value are canonical.
func find(value json.RawMessage, tokens []string) json.RawMessage {
	for _, token := range tokens {
		switch value[0] {
		case '{':
			var members map[string]json.RawMessage
			if err := json.Unmarshal(value, &members); err != nil {
				return nil
			}
			value = members[token]
		case '[':
			var elements []json.RawMessage
			i, err := strconv.ParseUint(token, 10, 31)
			if err != nil || token != strconv.FormatUint(i, 10) { // "01" and "+1" are no indexes
				return nil
			}
			if err := json.Unmarshal(value, &elements); err != nil || i >= uint64(len(elements)) {
				return nil
			}
			value = elements[i]
		default:
			return nil
		}
		if value == nil {
			return nil
		}
	}
	return value
}
