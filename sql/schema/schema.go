// Package schema embeds the SQL of pgonce: the golang-migrate migrations and the psql install script, both generated
// from the declarative tree beside this file (types, tables, views, functions).
package schema

import "embed"

//go:generate go run ../../internal/gen

// Migrations holds migrations/NNNNNN_title.up.sql, as golang-migrate's iofs source reads them.
//
//go:embed migrations/*.sql
var Migrations embed.FS

// Install is install.sql: the whole schema in one psql script, the same objects that the migrations create.
//
//go:embed install.sql
var Install string
