// Package history tests the promise of pgonce from outside: clients that do all they may, at random and at the same time, while
// generations rotate, drain and retire under them, and a judge who knows nothing of how it works.
//
// Every operation is recorded with the times of its call and its return. The history is then judged twice: key by key for
// linearizability against the model in model_test.go, and by counting what the business table, which has no constraint,
// holds. A test of the tests switches off one safeguard at a time, and wants to see it found.
//
// The clock is the database's own: a window is little more than a second, so that keys are forgotten and used again all the
// time, and the maintainers' p_now runs ahead of it by leaps.
package history
