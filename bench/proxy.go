package main

import (
	"net"
	"strconv"
	"time"

	"github.com/pgonce/pgonce/internal/pgproxy"
)

// hostPort is the address of a server.
type hostPort struct {
	Host string
	Port uint16
}

// startDelay starts a proxy in front of the database's server that adds delay to every round trip. It returns the
// proxy's address and what closes it.
func (db *database) startDelay(delay time.Duration) (*hostPort, func(), error) {
	server := db.config.ConnConfig
	proxy, err := pgproxy.Start(net.JoinHostPort(server.Host, strconv.Itoa(int(server.Port))))
	if err != nil {
		return nil, nil, err
	}
	stop := func() { proxy.Close() } //nolint:errcheck // nothing is left to lose
	proxy.SetDelay(delay)

	host, portText, err := net.SplitHostPort(proxy.Addr())
	if err != nil {
		stop()
		return nil, nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		stop()
		return nil, nil, err
	}
	return &hostPort{Host: host, Port: uint16(port)}, stop, nil
}
