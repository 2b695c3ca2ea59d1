package app

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// buildInfo is what the Go toolchain stamped into the binary.
type buildInfo struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func readBuildInfo() buildInfo {
	info := buildInfo{Version: "unknown", Revision: "unknown", GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if build.Main.Version != "" {
		info.Version = build.Main.Version
	}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			info.Revision = setting.Value
		}
	}
	return info
}

func newVersionCommand(streams Streams) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			info := readBuildInfo()
			switch output {
			case "":
				_, err := fmt.Fprintf(streams.Out, "orphand %s (revision %s, %s, %s)\n", info.Version, info.Revision, info.GoVersion, info.Platform)
				return err
			case "json":
				encoder := json.NewEncoder(streams.Out)
				encoder.SetIndent("", "  ")
				return encoder.Encode(info)
			default:
				return usage("--output %q: use json, or leave it out", output)
			}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, or empty for one line of text")
	return cmd
}
