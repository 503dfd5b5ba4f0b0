// Package archive is what comes after the business transaction: it keeps the tables of scopes in order. [Maintain] does
// what is due now, [Every] does so for as long as a daemon runs.
package archive
