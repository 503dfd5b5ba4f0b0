package pgproxy

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Codes that a client may send where the protocol version of a StartupMessage would stand.
const (
	cancelRequestCode = 80877102
	sslRequestCode    = 80877103
	gssEncRequestCode = 80877104
)

// maxStartupLen is PostgreSQL's own bound (MAX_STARTUP_PACKET_LENGTH).
const maxStartupLen = 10000

var errMalformed = errors.New("pgproxy: malformed message")

// session is one client connection and its connection to the server. Each direction has a reader, which looks
// at the messages, and a writer, which sends them when they are due.
type session struct {
	proxy          *Proxy
	client, server net.Conn
	toServer       chan segment
	toClient       chan segment
	done           chan struct{}
	once           sync.Once
	over           atomic.Bool // cut or hung up: what is still said counts for nothing

	// What the client has prepared and bound so far: true where it is a COMMIT. Used by the client's reader only.
	statements map[string]bool
	portals    map[string]bool
}

// segment is what one read gave, to be written when it is due. The last one of a direction has end set: the session ends
// then, after everything ahead of it was written.
type segment struct {
	due  time.Time
	data []byte
	end  bool
}

func newSession(p *Proxy, client, server net.Conn) *session {
	return &session{
		proxy:      p,
		client:     client,
		server:     server,
		toServer:   make(chan segment, 1024),
		toClient:   make(chan segment, 1024),
		done:       make(chan struct{}),
		statements: make(map[string]bool),
		portals:    make(map[string]bool),
	}
}

func (s *session) run() {
	defer s.close()

	var wg sync.WaitGroup
	wg.Go(func() { s.write(s.server, s.toServer) })
	wg.Go(func() { s.write(s.client, s.toClient) })
	wg.Go(func() {
		if s.startup() {
			s.read(s.client, Client, s.toServer, s.runsCommit)
		} else {
			s.push(s.toServer, segment{due: s.proxy.due(), end: true})
		}
	})
	wg.Go(func() { s.read(s.server, Server, s.toClient, saysCommitted) })
	wg.Wait()
}

func (s *session) close() {
	s.once.Do(func() {
		close(s.done)
		_ = s.client.Close()
		_ = s.server.Close()
	})
}

// hangUp ends the session from the client's side: the client is closed at once, the server is told that nothing follows. Its
// answers are still taken, to be thrown away: a server that cannot write drops what it has not yet read.
func (s *session) hangUp() {
	s.over.Store(true)
	_ = s.client.Close()
	half, ok := s.server.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		s.close()
	}
}

// startup passes on the client's first packet, which has no type byte. False means that the connection is over.
func (s *session) startup() bool {
	for {
		head := make([]byte, 8)
		if _, err := io.ReadFull(s.client, head); err != nil {
			return false
		}
		size := binary.BigEndian.Uint32(head)
		code := binary.BigEndian.Uint32(head[4:])
		if size < 8 || size > maxStartupLen {
			return false
		}
		if code == sslRequestCode || code == gssEncRequestCode {
			// The server is not asked: it might say yes.
			if _, err := s.client.Write([]byte{'N'}); err != nil {
				return false
			}
			continue
		}

		packet := make([]byte, size)
		copy(packet, head)
		if _, err := io.ReadFull(s.client, packet[8:]); err != nil {
			return false
		}
		goesOn := s.forward(s.toServer, s.proxy.due(), nil, packet, s.proxy.meet(s, Client, false))
		return goesOn && code != cancelRequestCode // nothing follows a cancel request
	}
}

// read passes on whole messages of one side until the connection ends, is malformed, or is cut.
func (s *session) read(conn io.Reader, from Side, to chan<- segment, isCommit func(kind byte, body []byte) (bool, error)) {
	var pending []byte
	chunk := make([]byte, 64<<10)
	for {
		n, readErr := conn.Read(chunk)
		due := s.proxy.due()
		pending = append(pending, chunk[:n]...)

		whole, end := 0, readErr != nil
		for {
			rest := pending[whole:]
			if len(rest) < 5 {
				break
			}
			size := 1 + int(binary.BigEndian.Uint32(rest[1:]))
			if size < 5 {
				end = true
				break
			}
			if len(rest) < size {
				break
			}
			commit, err := isCommit(rest[0], rest[5:size])
			if err != nil {
				end = true
				break
			}
			fault := s.proxy.meet(s, from, commit)
			if fault == nil {
				whole += size
				continue
			}
			if !s.forward(to, due, pending[:whole], rest[:size], fault) {
				return
			}
			pending, whole, due = rest[size:], 0, s.proxy.due()
		}

		s.pass(to, due, pending[:whole])
		pending = pending[whole:]
		if end {
			s.over.Store(true)
			s.push(to, segment{due: due, end: true})
			return
		}
	}
}

// forward passes on what is ahead of a message and, as far as the fault lets it, the message. nil is no fault. False means
// that the connection is over.
func (s *session) forward(to chan<- segment, due time.Time, ahead, message []byte, f *fault) bool {
	s.pass(to, due, ahead)
	if f == nil || f.After {
		s.pass(to, due, message)
	}
	if f == nil {
		return true
	}
	if f.stall != nil {
		close(f.stall.reached)
		select {
		case <-s.done:
			return false
		case <-f.stall.over:
		}
	}
	if f.stall == nil || f.stall.cut {
		s.over.Store(true) // of a cut it is already
		s.push(to, segment{due: due, end: true})
		return false
	}
	if !f.After {
		s.pass(to, s.proxy.due(), message)
	}
	return true
}

// pass forwards a copy of data, if there is any.
func (s *session) pass(to chan<- segment, due time.Time, data []byte) {
	if len(data) > 0 {
		s.push(to, segment{due: due, data: append([]byte(nil), data...)})
	}
}

func (s *session) push(to chan<- segment, seg segment) {
	select {
	case to <- seg:
	case <-s.done:
	}
}

func (s *session) write(to net.Conn, from <-chan segment) {
	for {
		select {
		case <-s.done:
			return
		case seg := <-from:
			sleepUntil(seg.due)
			if seg.end {
				if to == s.server {
					s.hangUp()
				} else {
					s.close()
				}
				return
			}
			if _, err := to.Write(seg.data); err != nil && !s.over.Load() {
				s.close()
				return
			}
		}
	}
}

// runsCommit follows the client's statements and portals, and is true of a message that runs a COMMIT.
func (s *session) runsCommit(kind byte, body []byte) (bool, error) {
	switch kind {
	case 'Q':
		var msg pgproto3.Query
		if err := msg.Decode(body); err != nil {
			return false, errMalformed
		}
		return hasCommit(msg.String), nil
	case 'P':
		var msg pgproto3.Parse
		if err := msg.Decode(body); err != nil {
			return false, errMalformed
		}
		s.statements[msg.Name] = hasCommit(msg.Query)
	case 'B':
		var msg pgproto3.Bind
		if err := msg.Decode(body); err != nil {
			return false, errMalformed
		}
		s.portals[msg.DestinationPortal] = s.statements[msg.PreparedStatement]
	case 'E':
		var msg pgproto3.Execute
		if err := msg.Decode(body); err != nil {
			return false, errMalformed
		}
		return s.portals[msg.Portal], nil
	case 'C':
		var msg pgproto3.Close
		if err := msg.Decode(body); err != nil {
			return false, errMalformed
		}
		if msg.ObjectType == 'S' {
			delete(s.statements, msg.Name)
		} else {
			delete(s.portals, msg.Name)
		}
	}
	return false, nil
}

// saysCommitted is true of the server's answer to a COMMIT. The server sends it when the transaction is durable and
// visible.
func saysCommitted(kind byte, body []byte) (bool, error) {
	if kind != 'C' {
		return false, nil
	}
	var msg pgproto3.CommandComplete
	if err := msg.Decode(body); err != nil {
		return false, errMalformed
	}
	return string(msg.CommandTag) == "COMMIT", nil
}
