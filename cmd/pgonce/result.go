package main

import (
	"encoding/base64"
	"unicode/utf8"
)

// resultHelp is what help texts say of a stored result.
const resultHelp = `A result is in result if it is UTF-8 text, else in result_base64.`

// resultText returns a stored result as text, or in base64 if it is no text. nil is neither.
func resultText(result []byte) (text, encoded *string) {
	if result == nil {
		return nil, nil
	}
	if utf8.Valid(result) {
		s := string(result)
		return &s, nil
	}
	s := base64.StdEncoding.EncodeToString(result)
	return nil, &s
}
