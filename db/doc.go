// Package db is what sqlc generates from sql/queries: one method a query, nothing else. It is the layer below package txn
// and follows the SQL functions closely, so it is not covered by the promises of semantic versioning that the other
// packages keep. Generate it anew with make generate.
package db
