package output

import (
	"strings"
	"testing"
)

// Where more than one model's B is swept or set, each names its model.
func TestWhoseB(t *testing.T) {
	const p = "routing.matrix=[[0.6, 0.4], [1.0, 0.0]]"
	quick := []string{"seeds=[1, 2]", "workload.duration_s=40", p, "systems=tokenrouter,async", "sweep.models.large.B=[1, 2, 4, 8]"}
	for _, set := range [][]string{{"models.small.B=2"}, {"sweep.models.small.B=[1, 2]", "plot.x=models.large.B"}} {
		r := results(t, small, append(set, quick...)...)
		answers, table := Summary(r)
		said := strings.ReplaceAll(strings.Join(answers, " "), "\u00a0", " ")
		files := write(t, r)
		html, svg := string(files[ReportHTML]), string(files["small.svg"])
		if table.Title != "Throughput by threshold of large, token/s" || !strings.HasPrefix(table.Note, "B is that of large. ") {
			t.Errorf("table %q, %q: whose B?", table.Title, table.Note)
		}
		for _, text := range []string{said, svg} {
			if plain := strings.NewReplacer("B of small", "", "B of large", "", "GPU", "").Replace(text); text == plain || strings.Contains(plain, "B =") || strings.Contains(plain, "B matters") {
				t.Errorf("%q: whose B?", text)
			}
		}
		for _, want := range []string{"B of large matters: of those tried B of large = ", "over B of large = 1", "the chain predicts B of large = "} {
			if !strings.Contains(said, want) {
				t.Errorf("%q lacks %q", said, want)
			}
		}
		if !strings.Contains(svg, "best B of large = ") || !strings.Contains(svg, "batching threshold B of large") || !strings.Contains(html, "threshold of large") {
			t.Error("the figure or the report does not say whose B")
		}
	}
	heat := newView(results(t, small, append([]string{"models.small.B=2", "on=dtmc", "sweep.workload.concurrency=[4, 6]", "plot.kind=heat", "plot.x=models.large.B"}, quick...)...)).heat("tokenrouter", "dtmc")
	if heat.Title != "Throughput over B of large = 1, predicted" {
		t.Error(heat.Title)
	}
	if answers, _ := Summary(results(t, small, quick...)); strings.Contains(answers[0], "of large") {
		t.Errorf("one B needs no name: %q", answers)
	}
}

// The gain of the best B of one model is no praise where another system is
// faster.
func TestFasterSystemIsNamed(t *testing.T) {
	set := []string{"seeds=[1]", "workload.duration_s=40", "routing.matrix=[[0.6, 0.4], [1.0, 0.0]]", "systems=tokenrouter,async,alternate,single:small", "sweep.models.large.B=[1, 2]"}
	answers, _ := Summary(results(t, small, append(set, "models.small.B=4", "routing.matrix=[[0.95, 0.05], [1.0, 0.0]]")...))
	if said := strings.ReplaceAll(answers[0], "\u00a0", " "); !strings.Contains(said, "; but async (") || strings.Contains(said, "single") || strings.Contains(said, "alternate") {
		t.Errorf("%q", said)
	}
	answers, _ = Summary(results(t, small, append(set, "models.large.B=2", "sweep.models.large.B=[1, 4]")...))
	if strings.Contains(answers[0], "faster") {
		t.Errorf("%q", answers[0])
	}
}

// A figure shows each system that was asked for, or the report and the answers
// say which it leaves out.
func TestFigureShowsAllSystemsOrSaysWhich(t *testing.T) {
	quick := []string{"seeds=[1]", "workload.duration_s=40", "sweep.models.large.B=[1, 2, 4]", "plot.x=models.large.B"}
	for _, test := range []struct {
		name, figure string
		set          []string
		drawn, left  []string
	}{
		{"few", "small", []string{"sweep.workload.concurrency=[2, 4]"},
			[]string{"async, users = 2", "async, users = 4", "alternate, users = 2", "alternate, users = 4"}, nil},
		{"many", "small", []string{"sweep.workload.concurrency=[2, 3, 4]"}, nil, []string{"async", "alternate"}},
		{"heat", "small-sim", []string{"sweep.workload.concurrency=[2, 3]", "plot.kind=heat"}, nil, []string{"async", "alternate"}},
		{"one by one", "small", nil, []string{"async", "alternate"}, nil},
	} {
		r := results(t, small, append(test.set, quick...)...)
		files := write(t, r)
		for _, name := range test.drawn {
			if !strings.Contains(string(files[test.figure+".svg"]), ">"+name+"<") {
				t.Errorf("%s: the figure lacks %s", test.name, name)
			}
		}
		says := "Not in the figure: " + strings.Join(test.left, ", ") + "; see the tables."
		_, caption, _ := strings.Cut(string(files[ReportHTML]), "<figcaption>")
		caption, _, _ = strings.Cut(caption, "</figcaption>")
		answers, _ := Summary(r)
		if want := test.left != nil; strings.Contains(caption, says) != want || strings.HasSuffix(answers[len(answers)-1], says) != want {
			t.Errorf("%s: caption %q, answers %q", test.name, caption, answers)
		}
		if test.left == nil && strings.Contains(caption, "Not in the figure") {
			t.Errorf("%s: caption %q", test.name, caption)
		}
	}
}
