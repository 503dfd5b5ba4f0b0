package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/internal/pgproxy"
)

const (
	maxAttempts    = 20                    // of one delivery, after which the provider gives up
	retryPause     = 20 * time.Millisecond // grows by itself with every attempt
	attemptTimeout = 15 * time.Second
)

// sender plays the providers: it delivers a log to one receiver, and injects the faults.
type sender struct {
	settings receiverSettings
	proxy    *pgproxy.Proxy // between receiver and database
	process  *process
	client   *http.Client

	mu    sync.Mutex
	tally tally
}

// tally is what the sender saw.
type tally struct {
	redeliveries int // because the delivery before was not acknowledged
	twins        int // deliveries that the log does not hold
	undelivered  int // given up
	replays      map[string]int
	coupons      map[eventKey]map[string]bool // acknowledged
	kills, cuts  int
}

func newSender(ctx context.Context, settings receiverSettings, proxy *pgproxy.Proxy) (*sender, error) {
	receiver, err := startProcess(ctx, settings)
	if err != nil {
		return nil, err
	}
	return &sender{
		settings: settings,
		proxy:    proxy,
		process:  receiver,
		// Every delivery on a connection of its own, as from many machines.
		client: &http.Client{Timeout: attemptTimeout, Transport: &http.Transport{DisableKeepAlives: true}},
		tally:  tally{replays: make(map[string]int), coupons: make(map[eventKey]map[string]bool)},
	}, nil
}

// close ends the receiver.
func (s *sender) close() { s.process.close() }

// send carries out the plan.
func (s *sender) send(ctx context.Context, plan []step) error {
	for _, step := range plan {
		if err := s.step(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

func (s *sender) step(ctx context.Context, step step) error {
	acknowledged, err := s.strike(ctx, step)
	if err != nil {
		return fmt.Errorf("line %d: %w", step.deliveries[0].Line, err)
	}
	var fire []Delivery
	if acknowledged {
		fire = append(fire, step.deliveries[1:]...)
	} else {
		fire = append(fire, step.deliveries...)
		if len(step.faults) > 0 {
			s.count(func(t *tally) { t.redeliveries++ })
		}
	}
	fire = append(fire, step.twins...)
	s.count(func(t *tally) { t.twins += len(step.twins) })

	start := make(chan struct{})
	errs := make(chan error, len(fire))
	for _, d := range fire {
		go func() {
			<-start
			if err := s.deliver(ctx, d); err != nil {
				errs <- fmt.Errorf("line %d: %w", d.Line, err)
				return
			}
			errs <- nil
		}()
	}
	close(start)
	var failed error
	for range fire {
		failed = errors.Join(failed, <-errs)
	}
	return failed
}

// strike delivers a step's first delivery and lets the step's faults happen to it. A receiver may overcome a cut by
// itself, so that one delivery meets several of them.
func (s *sender) strike(ctx context.Context, step step) (acknowledged bool, err error) {
	d := step.deliveries[0]
	struck := false
	again := func() {
		if struck {
			s.count(func(t *tally) { t.redeliveries++ })
		}
		struck = true
	}

	if slices.Contains(step.faults, faultKillInBusiness) {
		again()
		if err := s.kill(ctx, d, stopInBusiness); err != nil {
			return false, err
		}
	}
	before, armed := s.proxy.Cuts(), 0
	for _, f := range step.faults {
		if when, isCut := cuts[f]; isCut {
			s.proxy.CutCommit(when)
			armed++
		}
	}
	if armed > 0 {
		again()
		if err := s.deliver(ctx, d); err != nil {
			return false, err
		}
		cut := s.proxy.Cuts() - before
		s.count(func(t *tally) { t.cuts += cut })
		if cut != armed {
			return false, fmt.Errorf("%d of %d connections were cut: too few COMMITs came by", cut, armed)
		}
		acknowledged = true
	}
	if slices.Contains(step.faults, faultKillBeforeAnswer) {
		again()
		return false, s.kill(ctx, d, stopBeforeAnswer)
	}
	return acknowledged, nil
}

// kill delivers to a receiver that stops at the point, kills it there, and starts another.
func (s *sender) kill(ctx context.Context, d Delivery, point string) error {
	gone := make(chan error, 1)
	go func() {
		_, err := s.attempt(ctx, d, point)
		gone <- err
	}()
	stopped := s.process.waitStopped(ctx, point)
	s.process.kill()
	if err := errors.Join(stopped, <-gone); err != nil {
		return err
	}
	s.count(func(t *tally) { t.kills++ })

	receiver, err := startProcess(ctx, s.settings)
	if err != nil {
		return err
	}
	s.process = receiver
	return nil
}

// deliver delivers until it is acknowledged, as a provider does, with the waiting removed.
func (s *sender) deliver(ctx context.Context, d Delivery) error {
	for n := 1; ; n++ {
		acknowledged, err := s.attempt(ctx, d, "")
		if err != nil {
			return err
		}
		if acknowledged {
			return nil
		}
		if n == maxAttempts {
			s.count(func(t *tally) { t.undelivered++ })
			return nil
		}
		s.count(func(t *tally) { t.redeliveries++ })
		select {
		case <-time.After(time.Duration(n) * retryPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// attempt delivers once. It is not acknowledged if there was no answer, or not the one that the provider takes. A
// refusal (4xx) is an error: the log was checked, so it is the demo's own fault.
func (s *sender) attempt(ctx context.Context, d Delivery, stopAt string) (acknowledged bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.process.url+d.Provider.Name(), bytes.NewReader(d.Body))
	if err != nil {
		return false, err
	}
	req.Header = d.Headers.Clone()
	if stopAt != "" {
		req.Header.Set(headerStopAt, stopAt)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return false, ctx.Err()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return false, ctx.Err()
	}
	if resp.StatusCode >= 400 && resp.StatusCode < 500 {
		return false, fmt.Errorf("refused with %s: %s", resp.Status, bytes.TrimSpace(body))
	}
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		return false, nil
	}

	s.count(func(t *tally) { t.acknowledge(d, resp.Header) })
	answer := d.Provider.Answer()
	return resp.StatusCode == answer.Status && string(body) == answer.Body, nil
}

func (s *sender) count(change func(*tally)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.tally)
}

// acknowledge notes what the receiver said about each event of a delivery.
func (t *tally) acknowledge(d Delivery, headers http.Header) {
	outcomes := strings.Split(headers.Get(headerOutcome), ",")
	coupons := strings.Split(headers.Get(headerCoupon), ",")
	for i, key := range d.keys() {
		if i < len(outcomes) && outcomes[i] == string(pgonce.Replay) {
			t.replays[key.provider]++
		}
		if t.coupons[key] == nil {
			t.coupons[key] = make(map[string]bool)
		}
		coupon := ""
		if i < len(coupons) {
			coupon = coupons[i]
		}
		t.coupons[key][coupon] = true // an answer without a coupon counts as one that was never granted
	}
}
