package dtmc

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

func fit(users int) Config {
	return pair(linear{base: 4, perRequest: .05}, linear{base: 32, perRequest: .1}, .4, 1, users)
}

func TestPublishedAblation(t *testing.T) {
	file, err := os.Open("testdata/golden.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := 0
	for in := bufio.NewScanner(file); in.Scan(); {
		if strings.HasPrefix(in.Text(), "#") {
			continue
		}
		cells := strings.Split(in.Text(), ", ")
		number := func(i int) float64 {
			x, err := strconv.ParseFloat(cells[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		cfg := fit(8)
		cfg.Rule = rules[slices.IndexFunc(rules, func(r scheduler.Rule) bool { return r.String() == cells[0] })]
		cfg.Thresholds = scheduler.Thresholds{{1, int(number(1))}}
		near(t, cells[0], mustPredict(t, cfg).ThroughputTokPerS, number(2), number(3))
		lines++
	}
	if lines != 4 {
		t.Errorf("read %d golden figures, want 4", lines)
	}
}

func TestBestThresholdOfThePublishedAblation(t *testing.T) {
	for _, s := range []Search{SearchPeers, SearchAll} {
		tuning, err := Tune(fit(8), TuneOptions{Search: s})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(tuning.Best.B, []int{1, 7}) {
			t.Errorf("search %d: best B is %v, want [1 7]", s, tuning.Best.B)
		}
	}
}
