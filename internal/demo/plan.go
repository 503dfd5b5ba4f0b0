package demo

import (
	"time"

	"github.com/pgonce/pgonce/internal/pgproxy"
)

// fault is what can happen to a delivery on its way.
type fault string

// The faults, in the order in which one delivery can suffer all of them: after the first the event is still ungranted,
// and the last strikes whatever became of it.
const (
	faultKillInBusiness   fault = "kill-in-business"
	faultCutBeforeServer  fault = "cut-before-server"
	faultCutAfterServer   fault = "cut-after-server"
	faultKillBeforeAnswer fault = "kill-before-answer"
)

// cuts are the faults that the proxy brings about.
var cuts = map[fault]pgproxy.When{
	faultCutBeforeServer: pgproxy.BeforeServer,
	faultCutAfterServer:  pgproxy.AfterServer,
}

var allFaults = []fault{faultKillInBusiness, faultCutBeforeServer, faultCutAfterServer, faultKillBeforeAnswer}

// together is how close two deliveries must follow each other to be fired at the same moment.
const together = time.Second

// twinEvery is how often an event's first delivery gets a twin, fired at the same moment.
const twinEvery = 3

// step is a part of the log that is fired at the same moment. Faults strike its first delivery beforehand, when it
// is alone.
type step struct {
	deliveries []Delivery
	twins      []Delivery // more of the same, which the log does not hold
	faults     []fault
}

// makePlan divides a log into steps, in its order. Neighbours are fired together if they deliver the same event or
// came within a second of each other. Faults strike first deliveries of events, spread over the log.
func makePlan(log []Delivery) []step {
	var steps []step
	seen := make(map[eventKey]bool)
	var firsts []int // steps that start with a delivery that brings a new event
	for i, d := range log {
		fresh := false
		for _, key := range d.keys() {
			fresh = fresh || !seen[key]
			seen[key] = true
		}
		if i == 0 || !neighbours(log[i-1], d) {
			if fresh {
				firsts = append(firsts, len(steps))
			}
			steps = append(steps, step{})
		}
		last := &steps[len(steps)-1]
		last.deliveries = append(last.deliveries, d)
	}

	for i, f := range allFaults {
		s := &steps[firsts[i*len(firsts)/len(allFaults)]]
		s.faults = append(s.faults, f)
	}
	for i, at := range firsts {
		if i%twinEvery == 0 {
			steps[at].twins = append(steps[at].twins, steps[at].deliveries[0])
		}
	}
	return steps
}

func neighbours(a, b Delivery) bool {
	if b.ReceivedAt.Sub(a.ReceivedAt) <= together {
		return true
	}
	for _, x := range a.keys() {
		for _, y := range b.keys() {
			if x == y {
				return true
			}
		}
	}
	return false
}
