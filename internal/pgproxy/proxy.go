// Package pgproxy is a TCP proxy that understands the PostgreSQL protocol well enough to do three things to a
// connection: make it slow, cut it, and stall it; at any boundary between two messages, or while a COMMIT is under
// way. Tests and benchmarks stand it between a client and a real server.
//
// It reads the protocol in clear. TLS and GSSAPI encryption are refused on the server's behalf, so a client
// needs sslmode=disable or prefer. As a COMMIT it knows the statement (COMMIT, END), in the simple and in the extended
// protocol; the commit that a lone statement does by itself is not seen.
package pgproxy

import (
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy forwards connections to one server. Its methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	target   string
	delay    atomic.Int64 // of one direction, in nanoseconds
	wg       sync.WaitGroup

	mu       sync.Mutex
	armed    []*fault
	cuts     int
	messages [2]int // by Side
	closed   bool
	sessions map[*session]struct{}
}

// Start listens on a free port of 127.0.0.1 and forwards every connection to target: host:port, or the absolute
// path of a Unix socket. The server is dialled anew for each connection, so it need not be up yet.
func Start(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, target: target, sessions: make(map[*session]struct{})}
	p.wg.Add(1)
	go p.accept()
	return p, nil
}

// Addr is the host:port that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// SetDelay adds roundTrip to every round trip, half of it each way, from the next segment on. Segments that
// follow each other closely are all under way at once, as on a real line: a pipeline pays the delay once.
// The default is no delay.
func (p *Proxy) SetDelay(roundTrip time.Duration) { p.delay.Store(int64(roundTrip / 2)) }

// Close stops listening, drops all connections and waits until their goroutines have ended.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	for s := range p.sessions {
		s.close()
	}
	p.mu.Unlock()

	err := p.listener.Close()
	p.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Add(1)
		go func() {
			defer p.wg.Done()
			p.serve(client)
		}()
	}
}

func (p *Proxy) serve(client net.Conn) {
	network := "tcp"
	if strings.HasPrefix(p.target, "/") {
		network = "unix"
	}
	server, err := net.Dial(network, p.target)
	if err != nil {
		_ = client.Close()
		return
	}

	s := newSession(p, client, server)
	p.mu.Lock()
	if p.closed {
		s.close()
	}
	p.sessions[s] = struct{}{}
	p.mu.Unlock()

	s.run()

	p.mu.Lock()
	delete(p.sessions, s)
	p.mu.Unlock()
}

func (p *Proxy) due() time.Time { return time.Now().Add(time.Duration(p.delay.Load())) }
