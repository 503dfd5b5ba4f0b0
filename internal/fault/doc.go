// Package fault breaks servers, clients and maintainers under load, and checks that every operation took effect once.
//
// The load are workers that do operations by [txn.Run], by [txn.Consume] and in plain SQL, at mixed isolation levels, and
// repeat each other's keys, while maintenance rotates and retires. An operation writes one row into a table that nothing
// keeps from having it twice. One checker judges all faults: what was acknowledged is there once with that result, what
// was not is there once or not at all, a key is finished if and only if its row is there, and to retry everything leaves
// everything there exactly once. The same load without pgonce must fail the same checker.
//
// The number of rounds is set by -rounds.
package fault
