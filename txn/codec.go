package txn

import (
	"encoding/json"
	"fmt"
)

// Codec turns results into stored bytes and back. A codec must be able to read what it ever wrote: results are kept for
// the scope's window. It is used by several goroutines at once.
type Codec interface {
	// Encode returns the bytes and their content type. Empty bytes are stored as no result.
	Encode(value any) (data []byte, contentType string, err error)
	// Decode reads data, of the content type it was stored with, into the value that into points to.
	Decode(data []byte, contentType string, into any) error
}

// JSON is the default Codec: encoding/json.
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

const jsonType = "application/json"

func (jsonCodec) Encode(value any) ([]byte, string, error) {
	data, err := json.Marshal(value)
	return data, jsonType, err
}

func (jsonCodec) Decode(data []byte, contentType string, into any) error {
	if contentType != jsonType {
		return fmt.Errorf("stored content type is %q, not %q: use the Codec that stored it", contentType, jsonType)
	}
	return json.Unmarshal(data, into)
}
