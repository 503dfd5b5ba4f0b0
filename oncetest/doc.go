// Package oncetest gives tests a real PostgreSQL with the schema of pgonce in it.
//
// [Postgres] gives a test a database of its own:
//
//	func TestTransfer(t *testing.T) {
//		t.Parallel()
//		db := oncetest.Postgres(t)
//		_, err := db.Pool.Exec(t.Context(), "CREATE TABLE public.transfer (id bigint PRIMARY KEY)")
//		...
//	}
//
// One server serves all tests of a process. It is found in this order:
//
//   - url: the existing server of PGONCE_DATABASE_URL, whose role is a superuser, or has CREATEDB and CREATEROLE;
//   - local: the server programs of this machine, in the folder PGONCE_PG_BINDIR or else wherever pg_config, PATH,
//     Debian, RPM packages and Homebrew have them, newest first. Root runs them as postgres, or else as nobody;
//   - docker: a container of the image PGONCE_TEST_IMAGE, by default [DefaultImage];
//   - embedded: programs downloaded once by embedded-postgres, from PGONCE_EMBEDDED_URL if that is set.
//
// PGONCE_TEST_SERVER=url, local, docker or embedded forces one of them. A test that finds no server is skipped; with
// CI=true in the environment it fails.
//
// A server that was started from programs ends with the process that started it, however that ends, and its data with
// it. It listens on 127.0.0.1 and asks for no password: whoever can log in to the machine can use it while it runs. A
// container that nobody stops is removed by the reaper of testcontainers-go, and stays where that is disabled.
package oncetest
