package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
)

// Size of a digest, in bytes.
const Size = sha256.Size

// Bytes digests raw bytes: a body, exactly as it came. It is SHA-256, in SQL: sha256(body).
func Bytes(raw []byte) []byte {
	sum := sha256.Sum256(raw)
	return sum[:]
}

// Fields digests a list of fields: the number and order of fields, and each field's bytes, all count. Fields("ab", "c") is
// not Fields("a", "bc"), and no field is not one empty field.
//
// It is SHA-256 of each field in turn, preceded by its length in bytes as 8 bytes, big-endian. In SQL:
// sha256(int8send(octet_length(a)) || convert_to(a, 'UTF8') || int8send(octet_length(b)) || convert_to(b, 'UTF8')).
func Fields(fields ...string) []byte {
	var input []byte
	for _, f := range fields {
		input = binary.BigEndian.AppendUint64(input, uint64(len(f)))
		input = append(input, f...)
	}
	return Bytes(input)
}
