package main

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCountingConn(t *testing.T) {
	t.Parallel()

	client, server := net.Pipe()
	defer client.Close()
	go io.Copy(server, server) //nolint:errcheck // echoes until the client closes

	var counter tripCounter
	conn := &countingConn{Conn: client, trips: &counter.trips}
	buf := make([]byte, 1)
	trip := func(writes, reads int) {
		for range writes {
			_, err := conn.Write(nil) // empty: the echo of more would have to be read first
			require.NoError(t, err)
		}
		_, err := conn.Write([]byte("xy")[:reads])
		require.NoError(t, err)
		for range reads {
			_, err := io.ReadFull(conn, buf)
			require.NoError(t, err)
		}
	}

	trip(0, 1)
	require.EqualValues(t, 1, counter.trips.Load())
	trip(3, 2) // a pipeline: several writes, several reads, one trip
	require.EqualValues(t, 2, counter.trips.Load())
}
