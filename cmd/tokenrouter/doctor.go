package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/backend/cpu/kernel"
	"github.com/tokenrouter/tokenrouter/experiments/engines"
)

// finding is what doctor says of one thing.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warn or fail
	About  string `json:"about"`
	Fix    string `json:"fix,omitempty"`
}

const (
	isOK   = "ok"
	isWarn = "warn"
	isFail = "fail"
)

func newDoctor() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [FOLDER [FOLDER]]",
		Short: "Check this machine and model folders",
		Long: `doctor says what this machine can run, whether its arithmetic is right, and
whether folders hold models that can be served: configuration, every tensor,
tokenizer, chat template, and of two folders whether they may write one text.
It exits with 2 if anything is wrong.`,
		Example: `  tokenrouter doctor
  tokenrouter doctor models/qwen3-0.6b models/qwen3-4b
  tokenrouter doctor toy:qwen3 --json`,
		Args: cobra.MaximumNArgs(2),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return engines.Names(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			d := &doctor{w: cmd.OutOrStdout(), json: asJSON, colour: hasColours(cmd.OutOrStdout())}
			d.machine()
			if err := d.models(cmd, args); err != nil {
				return err
			}
			return d.verdict()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each check")
	return cmd
}

// doctor prints findings as they are made.
type doctor struct {
	w             io.Writer
	json, colour  bool
	checks, fails int
	wrong         error // the first of the writer
}

func (d *doctor) say(f finding) {
	d.checks++
	if f.Status == isFail {
		d.fails++
	}
	if d.json {
		lines := json.NewEncoder(d.w)
		lines.SetEscapeHTML(false)
		d.failed(lines.Encode(f))
		return
	}
	status := fmt.Sprintf("%-4s", f.Status)
	if d.colour {
		status = map[string]string{isOK: "\x1b[32m", isWarn: "\x1b[33m", isFail: "\x1b[1;31m"}[f.Status] + status + plainCode
	}
	line := fmt.Sprintf("%s  %-14s %s\n", status, f.Check, f.About)
	if f.Fix != "" {
		line += fmt.Sprintf("      %-14s fix: %s\n", "", f.Fix)
	}
	_, err := io.WriteString(d.w, line)
	d.failed(err)
}

func (d *doctor) failed(err error) {
	if d.wrong == nil {
		d.wrong = err
	}
}

func (d *doctor) ok(check, format string, args ...any) {
	d.say(finding{Check: check, Status: isOK, About: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(check, fix, format string, args ...any) {
	d.say(finding{check, isWarn, fmt.Sprintf(format, args...), fix})
}

func (d *doctor) fail(check, fix, format string, args ...any) {
	d.say(finding{check, isFail, fmt.Sprintf(format, args...), fix})
}

func (d *doctor) verdict() error {
	switch {
	case d.wrong != nil:
		return d.wrong
	case d.fails > 0:
		return &usageError{fmt.Errorf("%d of %d checks failed", d.fails, d.checks)}
	}
	return nil
}

// machine looks at what the machine is.
func (d *doctor) machine() {
	d.ok("program", "tokenrouter %s, %s, %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if kernel.Level() == "go" {
		d.warn("processor", "measured times will be those of plain Go, several times what the processor could do",
			"%s: there are no kernels for it", engines.Machine())
	} else {
		d.ok("processor", "%s", engines.Machine())
	}
	switch cores := runtime.GOMAXPROCS(0); {
	case cores < runtime.NumCPU():
		d.warn("cores", "unset GOMAXPROCS", "Go may use %d of %d", cores, runtime.NumCPU())
	case cores < 2:
		d.warn("cores", "measure one model alone", "there is one: two models would take turns on it")
	default:
		d.ok("cores", "%d: so many models can run side by side, a core each", cores)
	}
	const gb = 1e9
	total, available := engines.Memory()
	switch {
	case total == 0:
		d.warn("memory", "", "this system does not say how much there is")
	case available > 0 && available < total/8:
		d.warn("memory", "end what else runs", "%.1f GB, of which only %.1f GB are free", float64(total)/gb, float64(available)/gb)
	case available > 0:
		d.ok("memory", "%.1f GB, of which %.1f GB are free", float64(total)/gb, float64(available)/gb)
	default:
		d.ok("memory", "%.1f GB", float64(total)/gb)
	}
	if driver := gpuDriver(); driver != "" {
		d.ok("gpu", "%s", driver)
	} else {
		d.ok("gpu", "no NVIDIA driver: models run on the processor here, and paced engines keep the times of GPUs")
	}
	if err := engines.SelfTest(); err != nil {
		d.fail("arithmetic", "do not trust what models write here, and report this with the first lines", "%v", err)
	} else {
		d.ok("arithmetic", "two toys write what they write everywhere, bit for bit")
	}
}

// gpuDriver is what the NVIDIA driver says of itself, "" if there is none.
func gpuDriver() string {
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.Join(strings.Fields(strings.TrimPrefix(first, "NVRM version:")), " ")
}
