// Package pgonce is the vocabulary of pgonce: outcomes, keys and errors. It holds no SQL and does no work;
// see package txn for the business transaction and package archive for what comes after it.
package pgonce
