package archive

import (
	"fmt"
	"slices"
)

// Result is what became of a step.
type Result string

// Results of a step. All but Done are in a report only if they were still so when the call ended.
const (
	Done    Result = "done"    // taken
	Waiting Result = "waiting" // held back by transactions that must end first, see the view once.holders
	Busy    Result = "busy"    // a lock was not to be had at once: tried again by the next call
	Kept    Result = "kept"    // held back by the scope's policy
	Missing Result = "missing" // tables, and their keys, are gone that should be there
)

// Event is one line of a report: a step that was taken or that is held back.
type Event struct {
	Scope string `json:"scope"`
	// Step is repair, switch, rotate, settle, drain, retire, carry over, unlink, detach, drop or forget epoch; maintain
	// where the whole scope is held back. Later versions may have others.
	Step string `json:"step"`
	// Generation is the one that the step is about, 0 if it is about none.
	Generation int    `json:"generation,omitempty"`
	Result     Result `json:"result"`
	// Detail says more, for humans; it may be empty.
	Detail string `json:"detail,omitempty"`
}

// String returns the event as one line, for logs.
func (e Event) String() string {
	text := fmt.Sprintf("%s: %s", e.Scope, e.Step)
	if e.Generation != 0 {
		text += fmt.Sprintf(" of generation %d", e.Generation)
	}
	text += ": " + string(e.Result)
	if e.Detail != "" {
		text += ", " + e.Detail
	}
	return text
}

// Report is what one call did and what it could not do, in the order of events. A call that finds nothing to do
// reports nothing.
type Report struct {
	Events []Event `json:"events"`
}

// With returns the events with one of the results.
func (r Report) With(results ...Result) []Event {
	var events []Event
	for _, e := range r.Events {
		if slices.Contains(results, e.Result) {
			events = append(events, e)
		}
	}
	return events
}

// followedBy appends what a second call over a scope reported. What the first found held back there has been looked at
// again.
func (r Report) followedBy(scope string, next Report) Report {
	events := []Event{}
	for _, e := range r.Events {
		if e.Scope != scope || e.Result == Done || e.Result == Missing {
			events = append(events, e)
		}
	}
	return Report{Events: append(events, next.Events...)}
}
