package fingerprint_test

import (
	"bytes"
	"fmt"

	"github.com/pgonce/pgonce/fingerprint"
)

func ExampleFields() {
	first := fingerprint.Fields("acct_17", "12.00", "EUR")
	retry := fingerprint.Fields("acct_17", "12.00", "EUR")
	other := fingerprint.Fields("acct_17", "13.00", "EUR")
	fmt.Println(bytes.Equal(first, retry), bytes.Equal(first, other))
	// Output: true false
}

func ExampleBytes() {
	fmt.Printf("%x\n", fingerprint.Bytes([]byte("abc")))
	// Output: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
}

func ExampleJSON() {
	a, _ := fingerprint.JSON([]byte(`{"amount": 12.00, "currency": "EUR"}`))
	b, _ := fingerprint.JSON([]byte(`{"currency":"EUR","amount":12}`))
	fmt.Println(bytes.Equal(a, b))

	_, err := fingerprint.JSON([]byte(`{"amount": 1, "amount": 1000}`))
	fmt.Println(err)
	// Output:
	// true
	// fingerprint: no canonical form: Duplicate key: "amount"
}

func ExampleJSONFields() {
	first := []byte(`{"event": "evt_1", "amount": 1200, "sent_at": "2026-11-30T10:00:00Z"}`)
	retry := []byte(`{"event": "evt_1", "amount": 1200, "sent_at": "2026-11-30T10:05:00Z"}`)
	a, _ := fingerprint.JSONFields(first, "/event", "/amount")
	b, _ := fingerprint.JSONFields(retry, "/amount", "/event")
	fmt.Println(bytes.Equal(a, b))
	// Output: true
}
