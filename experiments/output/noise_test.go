package output

import (
	"math"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/experiments"
)

// played is small with another throughput for each B and each seed, as if the
// simulator had found it.
func played(t *testing.T, byB [][]float64, blockSE float64, set ...string) *experiments.Results {
	t.Helper()
	r := results(t, small, append([]string{"on=sim", "systems=tokenrouter", "workload.duration_s=20", "workload.warmup_s=2",
		"routing.matrix=[[0.6, 0.4], [1.0, 0.0]]", "sweep.models.large.B=[1, 2, 3]"}, set...)...)
	v := newView(r)
	f, se := v.figure(throughput), v.figure(blockError)
	for i := range r.Records {
		seeds := len(byB[0])
		r.Records[i].Values[f] = byB[i/seeds%len(byB)][i%seeds]
		r.Records[i].Values[se] = blockSE
	}
	return r
}

// A gain that chance may have made is no verdict.
func TestVerdictsKnowTheirNoise(t *testing.T) {
	nan := math.NaN()
	for _, test := range []struct {
		name    string
		byB     [][]float64
		blockSE float64
		verdict string // in the table
		said    []string
	}{
		{"sure", [][]float64{{100, 100.1}, {110, 110.1}, {105, 105.1}}, 0.001, "yes", []string{"B matters: of those tried B = 2 is best"}},
		{"seeds apart", [][]float64{{98, 102}, {102, 106}, {101, 102}}, 0.001, "within noise",
			[]string{"whether B matters is within noise: of those tried B = 2 is best", "+4.0 % over B = 1 (± 35.9"}},
		{"small and known to be", [][]float64{{100, 100}, {101, 101}, {90, 90}}, 0.1, "hardly", []string{"B hardly matters", "the worst, B = 3, loses 11 %"}},
		{"small, and chance may hide more", [][]float64{{99, 101}, {99.5, 101.5}, {99, 100}}, 0.001, "within noise", []string{"within noise"}},
		{"small, and chance hides little", [][]float64{{99.99, 100.01}, {100.1, 100.1}, {99, 99}}, 0.001, "hardly", []string{"+0.1 % over B = 1 (within noise, ± 0.1 %)"}},
		{"blocks of one seed", [][]float64{{100}, {103.7}, {101}}, 0.03, "within noise", []string{"+3.7 % over B = 1 (± 8.6"}},
		{"fine blocks of one seed", [][]float64{{100}, {103.7}, {101}}, 0.003, "yes", []string{"B matters"}},
		{"one short run", [][]float64{{100}, {103.7}, {101}}, nan, "yes", []string{"B matters", "One seed gives no interval of throughput"}},
	} {
		set := "seeds=[1, 2]"
		if len(test.byB[0]) == 1 {
			set = "seeds=[1]"
		}
		answers, table := Summary(played(t, test.byB, test.blockSE, set))
		all := strings.ReplaceAll(strings.Join(answers, " "), "\u00a0", " ")
		for _, want := range test.said {
			if !strings.Contains(all, want) {
				t.Errorf("%s: %q lacks %q", test.name, all, want)
			}
		}
		if strings.Contains(all, "no interval") != math.IsNaN(test.blockSE) {
			t.Errorf("%s: %q", test.name, all)
		}
		row := table.Rows[0]
		if got := row[len(row)-1]; got != test.verdict || (len(table.Emphasis) == 1) != (got == "yes") {
			t.Errorf("%s: B matters: %q, want %q", test.name, got, test.verdict)
		}
		svg := string(write(t, played(t, test.byB, test.blockSE, set))["small.svg"])
		if strings.Contains(svg, "best B = ") != (test.verdict == "yes") {
			t.Errorf("%s: the figure rings a best B, or none, against the verdict", test.name)
		}
	}
}

// So are systems and settings that only chance may tell apart.
func TestComparisonsKnowTheirNoise(t *testing.T) {
	set := []string{"seeds=[1, 2]", "sweep.models.large.B=[2]", "systems=tokenrouter,async,alternate"}
	answers, _ := Summary(played(t, [][]float64{{100, 104}, {99, 104}, {50, 50.1}}, 0.001, set...))
	if want := "tokenrouter is best in throughput (token/s) (async within noise of it): tokenrouter 102, "; !strings.HasPrefix(strings.ReplaceAll(answers[0], "\u00a0", " "), want) {
		t.Errorf("%q, want %q", answers[0], want)
	}
	answers, _ = Summary(played(t, [][]float64{{100, 104}, {99, 104}, {50, 51}}, 0.001,
		"seeds=[1, 2]", "models.large.B=2", "sweep.handoff.ms=[0, 1, 2]"))
	if !strings.Contains(answers[0], "tokenrouter 102 → 50.5 (-50.5") {
		t.Errorf("%q", answers[0])
	}
	answers, _ = Summary(played(t, [][]float64{{100, 104}, {99, 104}, {98, 104}}, 0.001,
		"seeds=[1, 2]", "models.large.B=2", "sweep.handoff.ms=[0, 1, 2]"))
	if !strings.Contains(answers[0], "tokenrouter 102 → 101 (-1.0\u00a0%, within noise)") {
		t.Errorf("%q", answers[0])
	}
	answers, _ = Summary(played(t, [][]float64{{100, 104}, {99, 104}, {50, 51}}, 0.001,
		"seeds=[1, 2]", `sweep.models.large.B=[1, 2, "tuned"]`))
	if !strings.HasSuffix(answers[0], "; of the others 1 within noise of it.") {
		t.Errorf("%q", answers[0])
	}
}
