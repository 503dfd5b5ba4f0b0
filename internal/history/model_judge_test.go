package history

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// at is an operation that lasts from call to ret, in milliseconds. Maintenance's clock is that of its return.
func at(call, ret int64, o op) porcupine.Operation {
	o.latest = max(o.latest, time.Duration(ret)*time.Millisecond)
	return porcupine.Operation{Input: o, Call: call * 1e6, Return: ret * 1e6}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func won(id string, claimed int) op { return op{kind: fresh, id: id, claimed: ms(claimed)} }

func wonDone(id string, at int) op {
	return op{kind: fresh, id: id, phase: done, result: id, claimed: ms(at), finished: ms(at)}
}

func told(outcome, id string) op {
	return op{kind: answer, outcome: outcome, id: id, result: id, stable: true}
}

func settled(id string, as phase, at int) op {
	return op{kind: settle, id: id, phase: as, result: id, finished: ms(at)}
}

// The model by itself: what it must accept, and what it must not.
func TestModel(t *testing.T) {
	t.Parallel()
	printed := func(o op, fingerprint string) op { o.fingerprint = fingerprint; return o }
	early := func(o op) op { o.stable = false; return o }
	lease := func(o op, until, attempt, decided int) op {
		o.until, o.attempt, o.decided = ms(until), attempt, ms(decided)
		return o
	}
	leap := func(o op, latest int) op { o.latest = ms(latest); return o }
	for name, c := range map[string]struct {
		good    bool
		history []porcupine.Operation
	}{
		"OneWinReplayed":                 {true, []porcupine.Operation{at(0, 10, wonDone("a", 0)), at(11, 12, told("replay", "a"))}},
		"TwoWins":                        {false, []porcupine.Operation{at(0, 10, wonDone("a", 0)), at(5, 12, wonDone("b", 5))}},
		"SecondWinAfterWindow":           {true, []porcupine.Operation{at(0, 10, wonDone("a", 0)), at(1300, 1310, wonDone("b", 1300)), at(1311, 1312, told("replay", "b"))}},
		"SecondWinBeforeWindow":          {false, []porcupine.Operation{at(0, 10, wonDone("a", 0)), at(1000, 1010, wonDone("b", 1000))}},
		"SecondWinAfterLeap":             {true, []porcupine.Operation{at(0, 10, wonDone("a", 0)), at(1000, 1010, leap(wonDone("b", 1000), 1300))}},
		"WindowCountsFromFinish":         {false, []porcupine.Operation{at(0, 1, won("a", 0)), at(1000, 1001, settled("a", done, 1000)), at(1300, 1310, won("b", 1300))}},
		"ForgottenIsRead":                {true, []porcupine.Operation{at(0, 10, wonDone("a", 0)), at(2000, 2001, told("replay", "a"))}},
		"OldWinnerAfterNewOne":           {false, []porcupine.Operation{at(0, 10, wonDone("a", 0)), at(1300, 1310, wonDone("b", 1300)), at(1311, 1312, told("replay", "a"))}},
		"OldWinnerFromOldSnapshot":       {true, []porcupine.Operation{at(0, 10, wonDone("a", 0)), at(1300, 1310, wonDone("b", 1300)), at(1200, 1312, early(told("replay", "a")))}},
		"PendingNeverForgotten":          {false, []porcupine.Operation{at(0, 1, won("a", 0)), at(9000, 9001, won("b", 9000))}},
		"PendingIsInProgress":            {true, []porcupine.Operation{at(0, 1, won("a", 0)), at(2, 3, told("in_progress", ""))}},
		"FinishedIsNotInProgress":        {false, []porcupine.Operation{at(0, 1, wonDone("a", 0)), at(2, 3, told("in_progress", ""))}},
		"InProgressFromOldSnapshot":      {true, []porcupine.Operation{at(0, 1, wonDone("a", 0)), at(2, 3, early(told("in_progress", "")))}},
		"Parked":                         {true, []porcupine.Operation{at(0, 1, won("a", 0)), at(1300, 1301, told("parked", "")), at(1302, 1303, settled("a", done, 1302))}},
		"ParkedTooEarly":                 {false, []porcupine.Operation{at(0, 1, won("a", 0)), at(900, 901, told("parked", ""))}},
		"FinishedIsParked":               {false, []porcupine.Operation{at(0, 1, wonDone("a", 0)), at(1300, 1301, told("parked", ""))}},
		"ParkedIsFoundInProgress":        {false, []porcupine.Operation{at(0, 1, won("a", 0)), at(1300, 1301, told("parked", "")), at(1302, 1303, op{kind: found, phase: pending, id: "a"})}},
		"ReplayOfUnfinished":             {false, []porcupine.Operation{at(0, 1, won("a", 0)), at(2, 3, told("replay", "a"))}},
		"ReplayOfNobody":                 {false, []porcupine.Operation{at(2, 3, told("replay", "a"))}},
		"ReplayWithOtherResult":          {false, []porcupine.Operation{at(0, 1, wonDone("a", 0)), at(2, 3, op{kind: answer, outcome: "replay", id: "a", result: "x", stable: true})}},
		"ReplayOfFailed":                 {false, []porcupine.Operation{at(0, 1, won("a", 0)), at(2, 3, settled("a", failed, 2)), at(4, 5, told("replay", "a"))}},
		"Failed":                         {true, []porcupine.Operation{at(0, 1, won("a", 0)), at(2, 3, settled("a", failed, 2)), at(4, 5, told("failed", "a"))}},
		"SettledTwice":                   {false, []porcupine.Operation{at(0, 1, won("a", 0)), at(2, 3, settled("a", done, 2)), at(4, 5, settled("a", done, 4))}},
		"SettledByStaleClaim":            {false, []porcupine.Operation{at(0, 1, won("a", 0)), at(2, 3, settled("a", released, 2)), at(4, 5, won("b", 4)), at(6, 7, settled("a", done, 6))}},
		"Released":                       {true, []porcupine.Operation{at(0, 1, won("a", 0)), at(2, 3, settled("a", released, 2)), at(4, 5, won("b", 4))}},
		"ReleasedAtOnce":                 {true, []porcupine.Operation{at(0, 1, op{kind: fresh, id: "a", phase: released}), at(4, 5, won("b", 4))}},
		"LostRightly":                    {true, []porcupine.Operation{at(0, 1, wonDone("a", 0)), at(2, 3, op{kind: lost, id: "a"})}},
		"LostWrongly":                    {false, []porcupine.Operation{at(0, 1, won("a", 0)), at(2, 3, op{kind: lost, id: "a"})}},
		"UndoneWinLeavesNothing":         {true, []porcupine.Operation{at(0, 1, op{kind: freshUndone, id: "a"}), at(2, 3, won("b", 2))}},
		"UndoneWinOfTakenKey":            {false, []porcupine.Operation{at(0, 1, won("a", 0)), at(2, 3, op{kind: freshUndone, id: "b"})}},
		"UndoneSettleLeavesItUnfinished": {true, []porcupine.Operation{at(0, 1, won("a", 0)), at(2, 3, op{kind: settleUndone, id: "a"}), at(4, 5, settled("a", done, 4))}},
		"UndoneSettleOfFinished":         {false, []porcupine.Operation{at(0, 1, wonDone("a", 0)), at(2, 3, op{kind: settleUndone, id: "a"})}},
		"Mismatch":                       {true, []porcupine.Operation{at(0, 1, printed(wonDone("a", 0), "x")), at(2, 3, printed(told("mismatch", ""), "y"))}},
		"MismatchOfSame":                 {false, []porcupine.Operation{at(0, 1, printed(wonDone("a", 0), "x")), at(2, 3, printed(told("mismatch", ""), "x"))}},
		"MismatchOfNone":                 {false, []porcupine.Operation{at(0, 1, wonDone("a", 0)), at(2, 3, printed(told("mismatch", ""), "x"))}},
		"ReplayOfMismatch":               {false, []porcupine.Operation{at(0, 1, printed(wonDone("a", 0), "x")), at(2, 3, printed(told("replay", "a"), "y"))}},
		"Found":                          {true, []porcupine.Operation{at(0, 1, wonDone("a", 0)), at(2, 3, op{kind: found, phase: done, id: "a", result: "a"})}},
		"FoundBeforeCommit":              {false, []porcupine.Operation{at(2, 3, wonDone("a", 0)), at(0, 1, op{kind: found, phase: done, id: "a", result: "a"})}},
		"NotFound":                       {true, []porcupine.Operation{at(0, 1, op{kind: notFound}), at(2, 3, wonDone("a", 2))}},
		"NotFoundWhileKnown":             {false, []porcupine.Operation{at(0, 1, wonDone("a", 0)), at(2, 3, op{kind: notFound})}},
		"OpenEndedCommitSeen":            {true, []porcupine.Operation{at(0, 9000, wonDone("a", 0)), at(1, 2, op{kind: notFound}), at(3, 4, told("replay", "a"))}},
		"TakenOver":                      {true, []porcupine.Operation{at(0, 1, lease(won("a", 0), 50, 1, 1)), at(60, 61, lease(won("b", 60), 99, 2, 61)), at(62, 63, settled("b", done, 62))}},
		"TakenOverTooEarly":              {false, []porcupine.Operation{at(0, 1, lease(won("a", 0), 50, 1, 1)), at(20, 21, lease(won("b", 20), 99, 2, 21))}},
		"TakenOverWithoutLease":          {false, []porcupine.Operation{at(0, 1, won("a", 0)), at(60, 61, lease(won("b", 60), 99, 2, 61))}},
		"TakenOverTwice":                 {false, []porcupine.Operation{at(0, 1, lease(won("a", 0), 50, 1, 1)), at(60, 65, lease(won("b", 60), 999, 2, 61)), at(61, 66, lease(won("c", 61), 999, 2, 62))}},
		"TakenOverAfterRenewal":          {false, []porcupine.Operation{at(0, 1, lease(won("a", 0), 50, 1, 1)), at(40, 41, lease(op{kind: renew, id: "a"}, 140, 1, 41)), at(60, 61, lease(won("b", 60), 99, 2, 61))}},
		"SettledAfterTakeover":           {false, []porcupine.Operation{at(0, 1, lease(won("a", 0), 50, 1, 1)), at(60, 61, lease(won("b", 60), 99, 2, 61)), at(62, 63, settled("a", done, 62))}},
		"RenewedAfterTakeover":           {false, []porcupine.Operation{at(0, 1, lease(won("a", 0), 50, 1, 1)), at(60, 61, lease(won("b", 60), 99, 2, 61)), at(62, 63, lease(op{kind: renew, id: "a"}, 140, 1, 63))}},
		"RenewalLostWrongly":             {false, []porcupine.Operation{at(0, 1, lease(won("a", 0), 50, 1, 1)), at(62, 63, op{kind: renewLost, id: "a", attempt: 1, decided: ms(63)})}},
		"ParkedWhileLeased":              {false, []porcupine.Operation{at(0, 1, lease(won("a", 0), 2000, 1, 1)), at(1300, 1301, told("parked", ""))}},
		"UnknownOutcome":                 {false, []porcupine.Operation{at(0, 1, told("unheard of", ""))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.good, porcupine.CheckOperations(model, c.history))
		})
	}
}
