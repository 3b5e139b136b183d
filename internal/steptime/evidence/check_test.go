package evidence

import (
	"math"
	"testing"
)

func TestPrint(t *testing.T) {
	all, err := Checks()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range Groups() {
		n, miss, sum, worst := 0, 0, 0.0, 0.0
		for _, c := range all {
			if c.Group == g.Name {
				n++
				e := c.Error()
				sum += math.Abs(e)
				if math.Abs(e) > math.Abs(worst) {
					worst = e
				}
				if math.Abs(e) > .1 {
					miss++
				}
			}
		}
		t.Logf("%-16s n %d mean %.3f worst %+.3f miss %d", g.Name, n, sum/float64(n), worst, miss)
		for _, c := range all {
			if c.Group == g.Name && (math.Abs(c.Error()) > .1 || n < 40) {
				t.Logf("    %s: %.2f-%.2f ours %.2f  %+.3f", c.Name, c.Low, c.High, c.Ms, c.Error())
			}
		}
	}
}
