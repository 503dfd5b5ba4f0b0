package main

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
)

type versionOutput struct {
	Version string  `json:"version"`
	Commit  *string `json:"commit"`
	Go      string  `json:"go"`
}

func newVersionCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Long: `Show the version of this program, not that of the schema: see pgonce migrate status.

JSON: version, commit (null if unknown), go.`,
		Example: `  pgonce version
  pgonce version --output json`,
		Args: cobra.NoArgs,
		RunE: e.action(func(*cobra.Command, []string) error {
			v := version()
			return e.print(v, func(w io.Writer) {
				fmt.Fprintf(w, "pgonce %s, %s\n", v.Version, v.Go)
			})
		}),
	}
}

func version() versionOutput {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versionOutput{Version: "unknown", Go: "unknown"}
	}
	v := versionOutput{Version: info.Main.Version, Go: info.GoVersion}
	if v.Version == "" {
		v.Version = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = &s.Value
		}
	}
	return v
}
