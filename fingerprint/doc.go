// Package fingerprint makes digests of requests. Two calls with one key and different fingerprints are a mismatch: the key
// was used for two operations, and neither is taken for the other.
//
// A fingerprint should cover what makes the operation what it is (amount, currency, payee) and nothing that a retry may
// change (time stamps, trace ids, signatures): otherwise an honest retry is refused. [Fields] digests values that the
// program has in hand, [JSONFields] chosen members of a body, [JSON] a whole body but for its layout, [Bytes] a body as it is.
//
// Every digest is a SHA-256, 32 bytes, and stays the same in later versions. Digests of different functions are not meant
// to be compared: use one function for one scope. All functions may be called concurrently.
package fingerprint
