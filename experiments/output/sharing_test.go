package output

import (
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/experiments"
)

// shared is the quickstart in short: its models share a GPU.
func shared(t *testing.T, set ...string) *experiments.Results {
	t.Helper()
	_, src, err := experiments.Source("quickstart")
	if err != nil {
		t.Fatal(err)
	}
	return results(t, string(src), append([]string{"on=dtmc", "workload.concurrency=4", "systems=tokenrouter,async"}, set...)...)
}

// An answer that rests on the assumption that models on one GPU do not slow each
// other down says so, and what it would be otherwise: what a run with that
// factor answers.
func TestAssumedFullSpeed(t *testing.T) {
	r := shared(t, "sweep.models.large.B=[1, 2, 3, 4]")
	answers, _ := Summary(r)
	said := strings.ReplaceAll(answers[len(answers)-1], "\u00a0", " ")
	if !strings.HasPrefix(said, "Assumed: small and large share GPU 0 without slowing each other down (derived, not measured: ") {
		t.Fatalf("answers %q", answers)
	}
	v := newView(shared(t, "sweep.models.large.B=[1, 2, 3, 4]", "colocation.factor=1.3"))
	var b, gain []float64
	for _, group := range v.groups() {
		c := v.curve(group, experiments.SystemTokenRouter, experiments.OnChain)
		b, gain = append(b, c.best().b), append(gain, 100*c.gain())
	}
	for _, want := range []string{"best B would be " + several(b, "%.0f") + " instead of ", "gain " + several(gain, "%.1f") + " % over B = 1"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
	if page := string(write(t, r)[ReportHTML]); !strings.Contains(page, "Assumed: small and large share GPU 0") {
		t.Error("the report does not say what is assumed")
	}
}

func TestAssumedFullSpeedWithoutB(t *testing.T) {
	for _, test := range []struct {
		name string
		set  []string
		want string // in the last answer; "" for no such sentence
	}{
		{"users", []string{"models.large.B=2", "sweep.workload.concurrency=[2, 4, 32]"}, " % lower (it was asked about up to 16 users)."},
		{"no chain", []string{"models.large.B=2", "on=sim", "workload.kind=closed", "models.small.kv_tokens=5000", "workload.duration_s=20", "workload.warmup_s=2", "seeds=[1]"},
			"; --set colocation.factor=1.3 shows what it would change if they did."},
		{"given", []string{"models.large.B=2", "colocation.factor=1"}, ""},
		{"taking turns", []string{"models.large.B=2", "systems=alternate,single:large"}, ""},
	} {
		answers, _ := Summary(shared(t, append(test.set, "routing.matrix=[[0.9, 0.1], [1, 0]]")...))
		said := ""
		for _, a := range answers {
			if strings.HasPrefix(a, "Assumed") {
				said = strings.ReplaceAll(a, "\u00a0", " ")
			}
		}
		if (said == "") != (test.want == "") || !strings.HasSuffix(said, test.want) {
			t.Errorf("%s: %q, want %q in %q", test.name, said, test.want, answers)
		}
	}
}
