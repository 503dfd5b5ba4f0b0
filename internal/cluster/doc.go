// Package cluster runs private PostgreSQL clusters for tests that kill, restart and copy them, which a server shared by
// tests cannot bear.
//
// A cluster is a data directory and at most one server over it. The first cluster of a process is made by initdb, which
// takes about a second; [Cluster.Copy] makes the others. A shell, the keeper, waits for the end of the process that made
// the cluster, however it ends, and then stops the server and removes the directory.
//
// Servers run with fsync off. A killed process loses what it had in its own memory, never what it gave to the operating
// system, so that fsync would only cost time here: it guards against the loss of power, which no test can bring about.
package cluster
