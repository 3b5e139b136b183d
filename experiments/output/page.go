package output

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/report"
)

// page gathers the report of an experiment.
func (v *view) page(figures []drawn, command string) *report.Page {
	p := &report.Page{
		Title: v.results.Plan.Name, Question: v.results.Plan.Question, Answers: v.answers(),
		Command: command, Version: v.results.Version,
		Definitions: definitions(), Assumptions: v.assumptions(),
		Files: []report.File{
			{Name: experiments.ResultsCSV, About: "one row a cell, seeds gathered, units in the names"},
			{Name: experiments.ResultsJSONL, About: "one object a cell and seed, with all settings"},
		},
	}
	for _, d := range figures {
		p.Figures = append(p.Figures, report.NamedSVG{Name: anchor(d.name), Caption: d.caption, SVG: d.svg,
			Files: []report.File{{Name: d.name + ".svg", About: "SVG"}, {Name: d.name + ".png", About: "PNG"}}})
	}
	p.Tables = append(p.Tables, *v.summary())
	if v.sweepsB() {
		p.Tables = append(p.Tables, *v.cells())
	}
	for _, s := range v.results.Plan.Points[0].Settings {
		text := v.results.Plan.ValueText(s.Path)
		if slices.Contains(v.results.Plan.Swept, s.Path) {
			text = "swept"
		}
		p.Settings = append(p.Settings, report.Setting{Name: s.Path, Value: text})
	}
	return p
}

// anchor turns a name into one that a page can link to.
func anchor(name string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '-'
	}, name)
}

func definitions() []report.Definition {
	return []report.Definition{
		{Term: "throughput", Unit: "token/s", Text: "visible output tokens between the end of warm-up and the end of the run, over that time"},
		{Term: "speed of a user", Unit: "token/s", Text: "mean over requests of output tokens / latency; throughput / users where requests never end"},
		{Term: "TTFT", Unit: "ms", Text: "from arrival to the first output token"},
		{Term: "TPOT", Unit: "ms", Text: "(latency − TTFT) / (output tokens − 1), by request"},
		{Term: "ITL", Unit: "ms", Text: "each gap between two output tokens of a request; 0 between tokens that arrive together"},
		{Term: "E2E", Unit: "ms", Text: "from arrival to the last output token"},
		{Term: "mean batch", Unit: "requests", Text: "requests a step"},
		{Term: "utilisation", Text: "share of the time with a step in flight"},
		{Term: "waiting", Unit: "ms", Text: "time that requests were ready but not in a step, an output token, by cause: a step in flight (step), fewer than B ready (threshold), no KV block (kv), another model's turn (peer), no place (admission)"},
		{Term: "large token share", Text: "share of visible tokens that the slowest model wrote"},
		{Term: "goodput", Unit: "request/s", Text: "requests that ended with TTFT and TPOT within the limits of their class; the good request share is over all that ended, aborted and refused ones included"},
		{Term: "class_NAME_…", Text: "the same figures of the requests of one class"},
		{Term: "GPU-seconds", Unit: "s / 1000 token", Text: "GPUs in use · time / 1000 visible tokens; a GPU that models share counts once"},
		{Term: "overhead", Unit: "µs", Text: "measured only: from the end of the last step that a step had to wait for, its model's own or those out of which its requests came, to its start; scheduler, hand-off and all that lies between"},
		{Term: "mean step", Unit: "ms", Text: "from the decision to start a step to its end; shown where something is measured"},
		{Term: "B in force", Unit: "requests", Text: "the threshold after it was cut to what cannot stall: ΣB ≤ live requests + models − 1"},
	}
}

// assumptions says what the figures rest on.
func (v *view) assumptions() []string {
	spec := v.results.Plan.Points[0].Spec
	out := []string{}
	for _, m := range spec.Models {
		if m.Prices != nil {
			p := m.Prices.Profile
			out = append(out, "Step times of "+m.Name+": "+p.Name+". "+p.Origin+" "+p.Notes)
		}
	}
	if spec.Workload.Kind == experiments.KindSteady {
		out = append(out, "Steady workload: requests never end, and each counts with prompt + output/2 tokens of context.")
	}
	if w := spec.Workload; experiments.IsOpen(w.Kind) {
		text := "Requests come whatever becomes of the others"
		switch w.Kind {
		case experiments.KindPoisson:
			text += ": gaps between arrivals are exponential and independent."
		case experiments.KindBursty:
			text += ", in bursts of geometric length: gaps are independent, exponential and short inside a burst, exponential and long between two."
		case experiments.KindTrace:
			text += ", when the trace says so; when it is played again, its times are shifted by its length and one mean gap."
		}
		out = append(out, text)
		if spec.Scheduler.MaxDelaySteps > 0 {
			out = append(out, fmt.Sprintf("An idle model of tokenrouter waits for B requests no longer than %g of its own steps of one request.", spec.Scheduler.MaxDelaySteps))
		}
	}
	out = append(out, spec.Workload.Assumed...)
	if spec.Routing.Algorithm == "matrix" {
		out = append(out, "Hand-offs are drawn from a routing matrix: the numbers of tokens between them are geometric and independent.")
	}
	for _, on := range v.results.Plan.On {
		switch on {
		case experiments.OnChain:
			out = append(out, "The chain gives every step of a batch size the length for the mean number of rows, and splits lengths between the two nearest quanta so that means are exact.")
		case experiments.OnPaced:
			out = append(out, "On paced the real runtime was measured, with engines that run no model and take as long as the step times say: another run finds other figures.")
		case experiments.OnCPU:
			out = append(out, "On cpu the real runtime was measured with models that ran on one machine: another run finds other figures.")
		}
	}
	out = append(out, v.results.Plan.SharingTexts()...)
	for _, w := range v.results.Warnings() {
		out = append(out, "Beware: "+w+".")
	}
	if src := v.results.Plan.Published.Source; src != "" {
		out = append(out, "Published figures: "+src)
	}
	return out
}
