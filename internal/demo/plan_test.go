package demo

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// planLog is a log of Stripe events: one delivery per name, apart by as many seconds.
func planLog(apart time.Duration, names ...string) []Delivery {
	var log []Delivery
	for i, name := range names {
		log = append(log, Delivery{
			Line:       i + 1,
			ReceivedAt: time.Unix(0, 0).Add(time.Duration(i) * apart),
			Provider:   stripe{},
			Events:     []Event{{ID: name}},
		})
	}
	return log
}

// shape renders a plan: its lines, twins as a plus, faults by number.
func shape(plan []step) []string {
	var shapes []string
	for _, s := range plan {
		text := ""
		for _, f := range s.faults {
			for i, known := range allFaults {
				if f == known {
					text += "!" + strconv.Itoa(i)
				}
			}
		}
		for _, d := range s.deliveries {
			text += " " + strconv.Itoa(d.Line)
		}
		for _, d := range s.twins {
			text += " +" + strconv.Itoa(d.Line)
		}
		shapes = append(shapes, text)
	}
	return shapes
}

func TestMakePlan(t *testing.T) {
	t.Parallel()

	t.Run("OrderIsKept", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"!0 1 +1", "!1 2", " 3", "!2 4", "!3 5 +5", " 6"},
			shape(makePlan(planLog(time.Minute, "a", "b", "a", "c", "d", "a"))))
	})
	t.Run("NeighboursOfOneEvent", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"!0!1 1 2 3 +1", "!2!3 4 5", " 6"},
			shape(makePlan(planLog(time.Minute, "a", "a", "a", "b", "b", "a"))))
	})
	t.Run("SameMoment", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"!0!1!2!3 1 2 3 +1"}, shape(makePlan(planLog(time.Second, "a", "b", "a"))))
	})
	t.Run("OneDelivery", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"!0!1!2!3 1 +1"}, shape(makePlan(planLog(time.Minute, "a"))))
	})
	t.Run("BuiltinLog", func(t *testing.T) {
		t.Parallel()
		log, err := BuiltinLog()
		require.NoError(t, err)
		var lines, faults, together int
		for _, s := range makePlan(log) {
			for _, d := range s.deliveries {
				lines++
				require.Equal(t, lines, d.Line)
			}
			faults += len(s.faults)
			if len(s.deliveries)+len(s.twins) > 1 {
				together++
			}
		}
		require.Equal(t, len(log), lines)
		require.Equal(t, len(allFaults), faults)
		require.Greater(t, together, 5)
	})
}
