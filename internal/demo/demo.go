// Package demo shows what pgonce is for. It delivers a log of provider callbacks, with the redeliveries, concurrent
// duplicates, killed receivers and connections lost during COMMIT that happen to such callbacks, to two receivers: one
// that grants whatever is delivered, and one that grants through pgonce. Then it counts the grants.
//
// Each receiver is a process of its own, started from the running program: see [IsReceiver].
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pgonce/pgonce/internal/pgproxy"
)

// Options of [Run]. The zero value is the demo as it is meant: the built-in log, on a throwaway server.
type Options struct {
	// Callbacks is the path of a delivery log, see [ReadLog]. Empty: the built-in one.
	Callbacks string

	// Keep leaves server and database running. The report says where.
	Keep bool

	// Progress receives a line for each thing that is done. Nil: none.
	Progress io.Writer

	// Server finds the server, which is to be left running if keep is set. Nil: the one that package oncetest finds, a
	// throwaway one unless the environment names another. Either way the demo makes a database of its own on it.
	Server func(ctx context.Context, keep bool) (Server, error)

	// Defence is that of the receiver that the report calls pgonce, for tests of the demo itself: with any other than
	// [DefencePgonce], the default, the report must not be OK.
	Defence Defence
}

// Names of the receivers in demo.grants.
const (
	naiveReceiver  = "naive"
	pgonceReceiver = "pgonce"
)

// Run runs the demo. The error is that it could not be run; what it found is in the report. Everything that it
// started has ended when it returns, except what [Options.Keep] keeps.
func Run(ctx context.Context, opts Options) (report Report, err error) {
	start := time.Now()
	progress := func(format string, args ...any) {
		if opts.Progress != nil {
			fmt.Fprintf(opts.Progress, "%5.1fs  "+format+"\n", append([]any{time.Since(start).Seconds()}, args...)...)
		}
	}
	if opts.Server == nil {
		opts.Server = findServer
	}
	if opts.Defence == "" {
		opts.Defence = DefencePgonce
	}

	log, err := openLog(opts.Callbacks)
	if err != nil {
		return report, err
	}
	report = summarise(log)
	progress("read %d deliveries of %d events by %d providers", report.Deliveries, report.Unique, len(report.Providers))

	progress("starting PostgreSQL")
	server, err := opts.Server(ctx, opts.Keep)
	if err != nil {
		return report, err
	}
	kept := false
	defer func() {
		if !kept && server.Stop != nil {
			err = errors.Join(err, server.Stop())
		}
	}()

	progress("creating a database, with a scope for each provider")
	db, err := createDatabase(ctx, server, usedProviders(log))
	if err != nil {
		return report, err
	}
	defer func() {
		db.close()
		if !kept {
			err = errors.Join(err, db.drop(context.WithoutCancel(ctx)))
		}
	}()

	plan := makePlan(log)
	progress("delivering the log to a receiver without defence")
	naive, err := replay(ctx, db, plan, naiveReceiver, DefenceNone)
	if err != nil {
		return report, err
	}
	progress("delivering the log to a receiver with pgonce")
	guarded, err := replay(ctx, db, plan, pgonceReceiver, opts.Defence)
	if err != nil {
		return report, err
	}

	report.count(log, plan, naive, guarded)
	if opts.Keep {
		kept = true
		report.URL = db.url(db.admin.Host, db.admin.Port)
		report.Note = server.Note
	}
	report.Took = time.Since(start)
	return report, nil
}

func openLog(path string) ([]Delivery, error) {
	if path == "" {
		return BuiltinLog()
	}
	return ReadLog(path)
}

func usedProviders(log []Delivery) []Provider {
	var used []Provider
	for _, d := range log {
		if !slices.Contains(used, d.Provider) {
			used = append(used, d.Provider)
		}
	}
	return used
}

// side is what became of the log at one receiver.
type side struct {
	tally
	granted map[eventKey][]string
}

// replay delivers the log to a new receiver.
func replay(ctx context.Context, db *database, plan []step, name string, defence Defence) (s side, err error) {
	proxy, err := pgproxy.Start(db.target)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	databaseURL, err := db.urlAt(proxy.Addr())
	if err != nil {
		return s, err
	}

	sender, err := newSender(ctx, receiverSettings{Name: name, Defence: defence, DatabaseURL: databaseURL}, proxy)
	if err != nil {
		return s, err
	}
	defer sender.close()
	if err := sender.send(ctx, plan); err != nil {
		return s, fmt.Errorf("demo: delivering to the receiver %s: %w", name, err)
	}
	s.tally = sender.tally
	s.granted, err = db.grants(ctx, name)
	return s, err
}

// summarise is what can be said of a log before it is delivered.
func summarise(log []Delivery) Report {
	r := Report{Deliveries: len(log)}
	seen := make(map[eventKey]bool)
	for _, d := range log {
		p := r.provider(d.Provider.Name())
		p.Deliveries++
		for _, key := range d.keys() {
			if !seen[key] {
				seen[key] = true
				r.Unique++
				p.Events++
			}
		}
	}
	return r
}

// provider is the part of a provider, which is added if it is not there.
func (r *Report) provider(name string) *ProviderReport {
	i := slices.IndexFunc(r.Providers, func(p ProviderReport) bool { return p.Provider == name })
	if i < 0 {
		i = len(r.Providers)
		r.Providers = append(r.Providers, ProviderReport{Provider: name, Faults: []string{}})
	}
	return &r.Providers[i]
}

// count compares what was granted with the log, and with what was acknowledged.
func (r *Report) count(log []Delivery, plan []step, naive, guarded side) {
	r.Naive, r.Pgonce = naive.report(), guarded.report()
	for key, coupons := range naive.granted {
		r.NaiveGrants += len(coupons)
		r.provider(key.provider).NaiveGrants += len(coupons)
	}
	for key, coupons := range guarded.granted {
		r.PgonceGrants += len(coupons)
		r.provider(key.provider).PgonceGrants += len(coupons)
		if len(coupons) > 1 {
			r.Doubled++
		}
	}
	for name, n := range guarded.replays {
		r.provider(name).Replays = n
	}
	for _, step := range plan {
		for _, f := range step.faults {
			p := r.provider(step.deliveries[0].Provider.Name())
			p.Faults = append(p.Faults, string(f))
		}
	}

	seen := make(map[eventKey]bool)
	for _, d := range log {
		for _, key := range d.keys() {
			if !seen[key] && guarded.lost(key) {
				r.Lost++
			}
			seen[key] = true
		}
	}
}

// lost reports whether an event was never granted, or acknowledged with a coupon that does not exist.
func (s side) lost(key eventKey) bool {
	for coupon := range s.coupons[key] {
		if !slices.Contains(s.granted[key], coupon) {
			return true
		}
	}
	return len(s.granted[key]) == 0
}

func (s side) report() SideReport {
	return SideReport{
		Redeliveries: s.redeliveries,
		Twins:        s.twins,
		Undelivered:  s.undelivered,
		Kills:        s.kills,
		Cuts:         s.cuts,
	}
}
