package report

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tokenrouter/tokenrouter/internal/report/figure"
)

var pages = flag.String("pages", "", "folder to write the trial page to, for a person to look at")

func svgOf(t testing.TB, d figure.Drawing) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := figure.WriteSVG(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// curves and bars are drawings with invented numbers.
func curves() *figure.Figure {
	f := &figure.Figure{Title: "Delayed batching against B", XLabel: "threshold B of the large model (requests)", YLabel: "throughput (tok/s)", YFromZero: true,
		About: "Throughput against B for three routing probabilities."}
	for k, p := range []float64{0.1, 0.2, 0.4} {
		chain := figure.Series{Name: "delayed, chain", Hue: "delayed"}
		sim := figure.Series{Name: "delayed, simulated", Hue: "delayed", Style: figure.Points}
		for b := 1.0; b <= 8; b++ {
			y := 500 - 90*float64(k) + 40*b - 3*b*b
			chain.X, chain.Y = append(chain.X, b), append(chain.Y, y)
			sim.X, sim.Y = append(sim.X, b), append(sim.Y, y+4)
			sim.Low, sim.High = append(sim.Low, y-16), append(sim.High, y+24)
		}
		f.Facets = append(f.Facets, figure.Facet{Title: fmt.Sprintf("p = %g", p), Series: []figure.Series{chain, sim},
			Marks: []figure.Mark{{Axis: figure.AtY, Value: 300 - 50*float64(k), Label: "async"}, {Axis: figure.AtY, Value: 221, Label: "alternate"}, {Axis: figure.AtPoint, X: 7, Value: 633 - 90*float64(k), Label: "best B = 7"}}})
	}
	return f
}

func bars() *figure.Gantt {
	return &figure.Gantt{Title: "Two requests", XLabel: "time (ms)", Kinds: []figure.Kind{{Name: "small step"}, {Name: "large step"}, {Name: "pending", Quiet: true}},
		Panels: []figure.GanttPanel{{Title: "delayed: mean latency 8.67", Rows: []figure.Row{
			{Name: "small", Spans: []figure.Span{{From: 0, To: 4, Kind: "small step", Label: "2"}, {From: 4, To: 8, Kind: "small step", Label: "1"}}},
			{Name: "large", Spans: []figure.Span{{From: 8, To: 40, Kind: "large step", Label: "1 request"}}},
			{Name: "request 1", Apart: true, Spans: []figure.Span{{From: 0, To: 4, Kind: "small step", Label: "S"}, {From: 4, To: 8, Kind: "pending"}, {From: 8, To: 40, Kind: "large step", Label: "L"}}},
		}}}}
}

func gains() *figure.Heatmap {
	return &figure.Heatmap{Title: "Gain over B = 1", XLabel: "B", YLabel: "p", ValueLabel: "gain (%)", Sign: true, Best: true, Decimals: 1,
		XNames: []string{"1", "2", "4", "8"}, YNames: []string{"0.1", "0.2", "0.4"},
		Values: [][]float64{{0, 1.1, 1.8, -4}, {0, 4.4, 7.2, 1}, {0, 11.2, 19.9, 23.1}}}
}

func ablation() *figure.Figure {
	return &figure.Figure{YLabel: "throughput (tok/s)", BarValues: true, XNames: []string{"alternate", "async", "delayed"}, Facets: []figure.Facet{{Series: []figure.Series{
		{Name: "simulated", Style: figure.Bars, X: []float64{0, 1, 2}, Y: []float64{221, 304, 374}, Low: []float64{218, 300, 370}, High: []float64{224, 308, 378}},
		{Name: "published", Style: figure.Reference, X: []float64{0, 1, 2}, Y: []float64{230.79, 296.86, 372.48}},
	}}}}
}

func resultTable() Table {
	t := Table{
		Title: "Results",
		Columns: []Column{{Name: "system", Key: true}, {Name: "on", Key: true}, {Name: "p", Number: true, Key: true}, {Name: "B large", Number: true},
			{Name: "throughput", Unit: "tok/s", Number: true}, {Name: "± 95 %", Unit: "tok/s", Number: true}, {Name: "per user", Unit: "tok/s", Number: true},
			{Name: "TPOT p95", Unit: "ms", Number: true}, {Name: "mean batch", Unit: "requests", Number: true}, {Name: "large tokens", Unit: "%", Number: true}, {Name: "remark"}},
		Emphasis: []int{1},
		Note:     "Intervals are over 3 seeds.",
	}
	for i, s := range []string{"tokenrouter", "tokenrouter", "async", "alternate", "lockstep", "single:large"} {
		on := []string{"dtmc", "sim"}[i%2]
		remark := ""
		if i == 5 {
			remark = "not applicable: one model has no hand-offs, so there is no B to choose"
		}
		t.Rows = append(t.Rows, []string{s, on, "0.4", fmt.Sprint(7 - i), fmt.Sprintf("%.1f", 374.3-float64(i)*37.7), "1.2", "46.8", "27.4", "5.31", "28.6", remark})
	}
	return t
}

func trialPage(t testing.TB) *Page {
	return &Page{
		Title:    "quickstart",
		Question: "Which threshold B suits a 32B model beside a 0.6B one on A100s, and when does B matter at all?",
		Answers: []string{
			"At p = 0.4 the best B is 7: 374 tok/s, 23 % over B = 1 (predicted by the chain, confirmed by the simulator within 0.4 %).",
			"At p = 0.1 B hardly matters: the best B = 5 gains 1.8 %.",
		},
		Figures: []NamedSVG{
			{Name: "throughput", Caption: "Throughput against B. Lines: chain; points: simulator, 95 % over three seeds.", SVG: svgOf(t, curves()), Files: []File{{"throughput.png", "PNG"}, {"throughput.svg", "SVG"}}},
			{Name: "schedule", Caption: "The first 40 ms.", SVG: svgOf(t, bars())},
			{Name: "gain", Caption: "Gain over B = 1; the best of each row is framed.", SVG: svgOf(t, gains())},
			{Name: "ablation", Caption: "Ours beside the published figures.", SVG: svgOf(t, ablation())},
		},
		Tables:   []Table{resultTable()},
		Settings: []Setting{{"models.small.profile", "a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1"}, {"models.large.step_ms", "base 32, per_request 0.1"}, {"routing.algorithm", "matrix"}, {"workload.kind", "steady"}, {"workload.concurrency", "8"}, {"seeds", "1, 2, 3"}},
		Command:  "tokenrouter run quickstart --on dtmc,sim --set workload.concurrency=8",
		Definitions: []Definition{
			{"throughput", "tok/s", "visible output tokens over the observed time"},
			{"TPOT", "ms", "(end to end − time to first token) / (tokens − 1), for requests of at least two tokens"},
		},
		Assumptions: []string{"Step times are measured; interference between co-located models is not.", "The routing matrix stands for an algorithm with <geometric> gaps."},
		Files:       []File{{"results.csv", "one row per cell"}, {"timeline.json", "open in ui.perfetto.dev"}},
		Version:     "tokenrouter 0.1.0 (7397257)",
	}
}

func TestWriteTrialPage(t *testing.T) {
	if *pages == "" {
		t.Skip("no -pages folder given")
	}
	var b bytes.Buffer
	if err := trialPage(t).WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*pages, "report.html"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	tab := resultTable()
	for _, w := range []int{0, 100, 60} {
		fmt.Printf("--- width %d\n", w)
		if err := tab.Terminal(os.Stdout, TerminalOptions{Width: w, Colour: w == 60}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tab.Markdown(os.Stdout); err != nil {
		t.Fatal(err)
	}
}
