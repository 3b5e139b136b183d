package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/loadtest"
	"github.com/tokenrouter/tokenrouter/internal/report"
)

// benchOutput prints runs as they end and keeps what the files will hold.
type benchOutput struct {
	options *benchOptions
	plan    *experiments.Plan
	prompts string
	notes   []string
	rows    []benchRow
}

// benchRow is what one run showed.
type benchRow struct {
	cell        *benchCell
	figures     []benchFigure
	result      *loadtest.Result
	interrupted bool
}

func newBenchOutput(o *benchOptions, p *experiments.Plan) *benchOutput {
	return &benchOutput{options: o, plan: p, prompts: "token ids"}
}

func (b *benchOutput) routed() bool { return len(b.options.standard) > 0 }

// system is what was measured, in the words of experiments where they have one.
func (b *benchOutput) system() string {
	if b.routed() {
		return experiments.SystemStdServing
	}
	return "server"
}

// probed notes how the server is asked.
func (b *benchOutput) probed(p *loadtest.Probed) {
	b.prompts, b.notes = p.Prompts, p.Notes
}

// add prints a run.
func (b *benchOutput) add(cmd *cobra.Command, c *benchCell, servers []*loadtest.Server, r *loadtest.Result, interrupted bool) error {
	row := benchRow{c, benchFigures(r, c.point.Spec.Workload.Classes(), b.routed()), r, interrupted}
	b.rows = append(b.rows, row)
	if math.IsNaN(r.WindowS) {
		cmd.PrintErrln("warning: the run ended before warm-up did, so nothing was measured: lower --warmup-s")
	}
	if b.options.json {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", b.json(&row, servers))
		return err
	}
	if len(b.rows) > 1 {
		fmt.Fprintln(cmd.OutOrStdout())
	}
	return b.print(cmd.OutOrStdout(), &row, servers)
}

func (b *benchOutput) print(out io.Writer, row *benchRow, servers []*loadtest.Server) error {
	r := row.result
	for i, s := range servers {
		role := ""
		if b.routed() {
			role = []string{"small: ", "large: "}[min(i, 1)]
		}
		fmt.Fprintf(out, "%s%s, %s by %s\n", role, s.URL, orWord(s.Model, "its model"), s.API)
	}
	fmt.Fprintln(out, b.loadText(row))
	fmt.Fprintf(out, "%d of %d requests ended well in %.2f s%s; prompts of %s, tokens counted by %s\n",
		r.Good, r.Sent, float64(r.EndNs)/1e9, cutText(r.Sent-r.Ended), b.prompts, countedText(r))
	if r.PromptTokens > 0 {
		fmt.Fprintf(out, "mean prompt as the server counts: %.1f tokens\n", r.PromptTokens)
	}
	t := report.Table{Columns: []report.Column{{Name: "Latency", Key: true}, {Name: "mean", Unit: "ms", Number: true},
		{Name: "p50", Unit: "ms", Number: true}, {Name: "p95", Unit: "ms", Number: true}, {Name: "p99", Unit: "ms", Number: true}}}
	for _, f := range row.figures {
		name, quantile, ok := strings.Cut(f.Name, "_ms.")
		switch {
		case !ok || strings.HasPrefix(f.Name, "class_"):
		case quantile == "mean":
			t.Rows = append(t.Rows, []string{strings.ToUpper(name), figureText(f.value)})
		default:
			last := &t.Rows[len(t.Rows)-1]
			*last = append(*last, figureText(f.value))
		}
	}
	fmt.Fprintln(out)
	if err := printTable(out, &t); err != nil {
		return err
	}
	fmt.Fprintln(out, b.rates(row))
	for _, line := range append(failureLines(r), b.warnings(row)...) {
		fmt.Fprintln(out, line)
	}
	return nil
}

// cutText tells of requests that were under way when the run ended.
func cutText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d were cut by the end of the run", n)
}

func orWord(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// loadText says what was sent.
func (b *benchOutput) loadText(row *benchRow) string {
	var parts []string
	for _, s := range row.cell.settings(b.routed()) {
		_, name, _ := strings.Cut(s.Path, ".")
		parts = append(parts, name+" = "+s.Text())
	}
	return "load: " + strings.Join(parts, ", ") + fmt.Sprintf(", seed %d", row.cell.seed)
}

// countedText names the ways in which tokens were counted.
func countedText(r *loadtest.Result) string {
	var parts []string
	for s, n := range r.Counted {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%v", loadtest.Source(s)))
		}
	}
	return orWord(strings.Join(parts, " and "), "nothing")
}

// rates is the line of figures that are no latencies.
func (b *benchOutput) rates(row *benchRow) string {
	r := row.result
	text := fmt.Sprintf("throughput %s token/s, %s requests/s, %s token/s a user", figureText(r.ThroughputTokPerS), figureText(float64(r.Requests)/r.WindowS), figureText(r.PerUserTokPerS))
	if b.routed() {
		text += fmt.Sprintf("; %s %% of tokens by the large model", figureText(100*r.TokenShare[len(r.TokenShare)-1]))
	}
	if !math.IsNaN(r.GoodShare) {
		text += fmt.Sprintf("\ngoodput %s requests/s: %s %% kept their limits", figureText(r.GoodputReqPerS), figureText(100*r.GoodShare))
	}
	return text
}

func failureLines(r *loadtest.Result) []string {
	var out []string
	for _, f := range r.Failures {
		line := fmt.Sprintf("failed: %d × %s", f.Count, f.Kind)
		if f.First != "" {
			line += ", the first with: " + f.First
		}
		out = append(out, line)
	}
	if r.Hopeless {
		out = append(out, "given up: nothing but failures came")
	}
	return out
}

// lateMs is from where on a client that sends late is worth a word.
const lateMs = 20

// cutShare is from which share of the requests on those that the end cut are no
// longer the edge of a run: latencies of the others, the shorter ones, flatter.
const cutShare = 0.25

// warnings say what the figures rest on.
func (b *benchOutput) warnings(row *benchRow) []string {
	var out []string
	r := row.result
	if cut := r.Sent - r.Ended; float64(cut) >= cutShare*float64(r.Sent) && cut > 0 {
		line := fmt.Sprintf("warning: %d of %d requests had not ended when the run did", cut, r.Sent)
		if r.Ended > 0 {
			line += fmt.Sprintf(": latencies are those of the other %d, which flatter the server", r.Ended)
		}
		if !row.interrupted {
			line += "\n  fix: have the run last longer; if as many are open then, the load is more than the server can carry"
		}
		out = append(out, line)
	}
	for _, n := range b.notes {
		out = append(out, "note: "+n)
	}
	if r.OtherLength > 0 {
		out = append(out, fmt.Sprintf("note: %d answers had another length than was asked for", r.OtherLength))
	}
	if r.Disagree > 0 {
		out = append(out, fmt.Sprintf("note: in %d answers the server's usage is not the number of its token ids; ids are what counts here", r.Disagree))
	}
	if r.Counted[loadtest.ByChunks] > 0 {
		out = append(out, "note: a chunk was taken for a token where the server told no number")
	}
	if r.LateMs > lateMs {
		out = append(out, fmt.Sprintf("note: a request was sent %.0f ms late: the machine of the client is too busy", r.LateMs))
	}
	return out
}

// json writes a run as one line, the newline left out.
func (b *benchOutput) json(row *benchRow, servers []*loadtest.Server) []byte {
	var urls, models []string
	for _, s := range servers {
		urls, models = append(urls, s.URL), append(models, s.Model)
	}
	var settings, line jsonObject
	for _, s := range row.cell.settings(b.routed()) {
		settings.add(s.Path, json.RawMessage(s.JSON()))
	}
	failed, counted := map[string]int{}, map[string]int{}
	for _, f := range row.result.Failures {
		failed[f.Kind] = f.Count
	}
	for s, n := range row.result.Counted {
		if n > 0 {
			counted[loadtest.Source(s).String()] = n
		}
	}
	line.add("experiment", b.plan.Name)
	line.add("system", b.system())
	line.add("on", "server")
	line.add("servers", urls)
	line.add("served_models", models)
	line.add("api", b.options.api)
	line.add("temperature", b.options.temperature)
	line.add("seed", row.cell.seed)
	line.add("interrupted", row.interrupted)
	line.add("settings", settings.text())
	addBenchFigures(&line, row.figures)
	line.add("failed", failed)
	line.add("counted_by", counted)
	line.add("prompts", b.prompts)
	if w := b.warnings(row); w != nil {
		line.add("warnings", w)
	}
	line.add("version", version())
	return line.text()
}

// finish writes the files.
func (b *benchOutput) finish(cmd *cobra.Command, servers []*loadtest.Server) error {
	if b.options.out == "" || len(b.rows) == 0 {
		return nil
	}
	if err := os.MkdirAll(b.options.out, 0o755); err != nil {
		return fmt.Errorf("make the folder for results: %w", err)
	}
	var lines []byte
	for i := range b.rows {
		lines = append(append(lines, b.json(&b.rows[i], servers)...), '\n')
	}
	err := errors.Join(
		experiments.ReplaceFile(filepath.Join(b.options.out, experiments.ResultsJSONL), lines),
		experiments.ReplaceFile(filepath.Join(b.options.out, experiments.ResultsCSV), b.csv()),
	)
	if err == nil {
		cmd.PrintErrf("wrote %s\n", filepath.Join(b.options.out, experiments.ResultsCSV))
	}
	return err
}

// csv writes a row for each run.
func (b *benchOutput) csv() []byte {
	header := append([]string{"experiment", "system", "on", "seed", "interrupted"}, b.plan.Swept...)
	for _, f := range b.rows[0].figures {
		header = append(header, f.Column)
	}
	lines := [][]string{header}
	for _, row := range b.rows {
		line := []string{b.plan.Name, b.system(), "server", fmt.Sprint(row.cell.seed), fmt.Sprint(row.interrupted)}
		for _, s := range row.cell.point.Swept {
			line = append(line, strings.Trim(s.Text(), `"`))
		}
		for _, f := range row.figures {
			text := ""
			if x := number(f.value); x != nil {
				text = strconv.FormatFloat(*x, 'g', -1, 64)
			}
			line = append(line, text)
		}
		lines = append(lines, line)
	}
	var buf bytes.Buffer
	if err := csv.NewWriter(&buf).WriteAll(lines); err != nil {
		panic("tokenrouter: a buffer refused to be written: " + err.Error())
	}
	return buf.Bytes()
}
