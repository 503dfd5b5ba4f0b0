package archive_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce/archive"
	"github.com/pgonce/pgonce/migrate"
	"github.com/pgonce/pgonce/oncetest"
)

func ExampleMaintain() {
	ctx := context.Background()
	server, err := oncetest.FindServer(ctx, oncetest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = server.Stop() }()
	pool, err := pgxpool.New(ctx, server.URL())
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := migrate.Up(ctx, pool); err != nil {
		log.Fatal(err)
	}
	if _, err := pool.Exec(ctx, `
		SELECT once.create_scope('example_mail', '7 days', '3 days');
		SELECT * FROM once.claim('example_mail', 'welcome 17');`); err != nil {
		log.Fatal(err)
	}
	defer func() { _, _ = pool.Exec(ctx, "SELECT once.drop_scope('example_mail', p_discard_keys => true)") }()

	report, err := archive.Maintain(ctx, pool, archive.Options{
		Scope: "example_mail",
		Now:   time.Now().Add(4 * 24 * time.Hour), // only so that there is something to do
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range report.With(archive.Done) {
		if e.Generation != 0 {
			fmt.Println(e.Step, "generation", e.Generation)
		}
	}
	// Output:
	// rotate generation 2
	// switch generation 2
	// drain generation 1
}

func ExampleEvery() {
	_ = func(pool *pgxpool.Pool) { // main, of a daemon
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		archive.Every(ctx, pool, time.Minute, archive.Options{}, func(report archive.Report, err error) {
			if err != nil {
				slog.Error("maintenance failed", "error", err)
			}
			for _, e := range report.Events {
				slog.Info("maintenance", "event", e.String())
			}
		})
	}
}
