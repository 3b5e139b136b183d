package output

import (
	"slices"
	"strings"
	"testing"
)

// A threshold that is cut is told from one that is in force as it was asked for,
// wherever it is named.
func TestCutThresholds(t *testing.T) {
	const p = "routing.matrix=[[0.6, 0.4], [1.0, 0.0]]"
	r := results(t, small, p, "sweep.models.large.B=[1, 9999]", "systems=tokenrouter,async")
	answers, table := Summary(r)
	for i, a := range answers {
		answers[i] = strings.ReplaceAll(a, "\u00a0", " ")
	}
	if len(answers) != 2 || !strings.Contains(answers[0], "of those tried B = 9999 (4 in force) is best") || !strings.Contains(answers[0], "the chain predicts B = 9999 (4 in force)") ||
		answers[1] != "Cut to what cannot stall with so few requests: B = 9999 is 4 in force." {
		t.Errorf("answers %q", answers)
	}
	if row := table.Rows[0]; row[1] != "9999 (4 in force)" || row[2] != "9999 (4 in force)" {
		t.Errorf("row %q", row)
	}
	files := write(t, r)
	if svg := string(files["small.svg"]); !strings.Contains(svg, "best B = 9999 (4 in force)") || !strings.Contains(svg, ">B = 4 in force<") {
		t.Error("the figure does not mark what was cut")
	}
	if !strings.Contains(string(files[ReportHTML]), "9999 (4 in force)") {
		t.Error("the report does not say what was in force")
	}
	// Of thresholds that come to the same, the smallest is the answer.
	answers, _ = Summary(results(t, small, p, "sweep.models.large.B=[8, 4, 1]", "systems=tokenrouter"))
	if !strings.Contains(answers[0], "B\u00a0=\u00a04 is best") || !strings.HasSuffix(answers[1], "B\u00a0=\u00a08 is 4 in force.") {
		t.Errorf("answers %q", answers)
	}
	if answers, _ = Summary(results(t, small, p, "systems=tokenrouter")); len(answers) != 1 || strings.Contains(answers[0], "in force") {
		t.Errorf("none is cut, but: %q", answers)
	}
}

func TestCutThresholdsInAHeatmap(t *testing.T) {
	r := results(t, small, "routing.matrix=[[0.6, 0.4], [1.0, 0.0]]", "sweep.models.large.B=[1, 2, 4, 6]", "on=dtmc", "systems=tokenrouter",
		"sweep.workload.concurrency=[2, 3, 6]", "plot.kind=heat", "plot.x=models.large.B")
	if got := newView(r).heat("tokenrouter", "dtmc").YNames; !slices.Equal(got, []string{"2 (B ≤ 2)", "3 (B ≤ 3)", "6"}) {
		t.Errorf("rows %q", got)
	}
	if text := newView(r).cutText(); len(text) != 1 || !strings.Contains(strings.ReplaceAll(text[0], "\u00a0", " "), "users = 2: B = 4 and 6 is 2 in force; users = 3: ") {
		t.Errorf("said %q", text)
	}
}
