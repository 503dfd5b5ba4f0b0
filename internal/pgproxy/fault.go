package pgproxy

import (
	"fmt"
	"sync"
)

// Side is one end of a connection.
type Side int

// The two sides.
const (
	Client Side = iota
	Server
)

func (s Side) String() string {
	if s == Server {
		return "server"
	}
	return "client"
}

// When says on which side of the server's commit a connection is cut.
type When int

const (
	// BeforeServer cuts before the COMMIT reaches the server: the transaction is rolled back. What the client
	// sent ahead of the COMMIT, even in the same pipeline, still reaches the server.
	BeforeServer When = iota
	// AfterServer cuts after the server has committed: the answer is lost from the COMMIT's CommandComplete on,
	// answers ahead of it still reach the client. A COMMIT that the server answers with ROLLBACK or an error is
	// let through and leaves the cut armed.
	AfterServer
)

func (w When) String() string {
	if w == AfterServer {
		return "after server"
	}
	return "before server"
}

// Point is a boundary between two messages of one side: that before its N-th message, or the one after it.
type Point struct {
	// From is the side whose messages are counted.
	From Side
	// N is the message, from 1 on, of those that the side sends on any connection once the point is armed. A
	// startup packet or a cancel request counts as one, a request for encryption does not.
	N int
	// After has the message itself forwarded; the default is that it is the first one that is not.
	After bool
}

func (p Point) String() string {
	if p.After {
		return fmt.Sprintf("after %v's message %d", p.From, p.N)
	}
	return fmt.Sprintf("before %v's message %d", p.From, p.N)
}

// fault is what happens to a connection at a message.
type fault struct {
	Point
	commit bool   // of the messages that run a COMMIT (Client) or say that it is done (Server), the N-th
	stall  *Stall // nil: a cut
}

// CutCommit arms one cut, of whichever connection commits next.
//
// Armed cuts and stalls are used up one by one in the order in which they were armed; each counts from when the one
// ahead of it was used up.
func (p *Proxy) CutCommit(when When) {
	from := Client // who sends the COMMIT
	if when == AfterServer {
		from = Server // who says that it is done
	}
	p.arm(&fault{Point: Point{From: from, N: 1}, commit: true})
}

// CutAt arms one cut, of the connection that comes to the point. Both directions end there, after everything ahead of
// the point was forwarded. What the other side sends meanwhile may be forwarded or lost.
func (p *Proxy) CutAt(point Point) { p.arm(&fault{Point: point}) }

// StallAt arms one stall: from the point on, the connection that comes to it forwards nothing more in this direction, until
// the stall is released or cut. The other direction goes on. Of a side that is stalled, not even the end of the connection
// is noticed: if the client hangs up meanwhile, the server does not learn of it.
func (p *Proxy) StallAt(point Point) *Stall {
	stall := &Stall{reached: make(chan struct{}), over: make(chan struct{})}
	p.arm(&fault{Point: point, stall: stall})
	return stall
}

// Disarm takes back what is armed and was not used up.
func (p *Proxy) Disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = nil
}

// Cuts is the number of cuts that happened, of armed ones.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Messages is how many messages the side has sent so far, on all connections.
func (p *Proxy) Messages(from Side) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.messages[from]
}

func (p *Proxy) arm(f *fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = append(p.armed, f)
}

// meet counts a message, and returns the fault that is due at it, nil for none.
func (p *Proxy) meet(s *session, from Side, commit bool) *fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.over.Load() {
		return nil
	}
	p.messages[from]++
	if len(p.armed) == 0 {
		return nil
	}
	f := p.armed[0]
	if f.From != from || f.commit && !commit {
		return nil
	}
	if f.N--; f.N > 0 {
		return nil
	}
	p.armed = p.armed[1:]
	if f.stall == nil {
		p.cuts++
		s.over.Store(true)
	}
	return f
}

// Stall is one direction of a connection that is held. Its methods are safe for concurrent use.
type Stall struct {
	reached chan struct{} // closed by the connection that is held
	over    chan struct{}
	once    sync.Once
	cut     bool // to be read once over is closed
}

// Reached is closed when a connection has come to the point. What is ahead of the point is on its way then.
func (s *Stall) Reached() <-chan struct{} { return s.reached }

// Release forwards what was held, and everything that follows. After a Cut it does nothing.
func (s *Stall) Release() { s.end(false) }

// Cut closes both connections, and what was held is lost. After a Release it does nothing.
func (s *Stall) Cut() { s.end(true) }

func (s *Stall) end(cut bool) {
	s.once.Do(func() {
		s.cut = cut
		close(s.over)
	})
}
