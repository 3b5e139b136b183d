package figure

import (
	"fmt"
	"math"
)

// schedules is the small example of the paper's figure 4: six requests, a letter
// for each kept token, a large step four times as long as a small one.
func schedules() *Gantt {
	g := &Gantt{
		Title:  "Six requests under four launch rules (large step = 4 small steps)",
		XLabel: "time (small steps)",
		Kinds:  []Kind{{Name: "small step"}, {Name: "large step"}, {Name: "waiting", Quiet: true}},
		About:  "Four stacked schedules of the same six requests.",
	}
	for i, sys := range []string{"delayed, B = 2: mean latency 8.67", "async: mean latency 10.83", "alternate: mean latency 13.00", "lockstep: mean latency 13.83"} {
		p := GanttPanel{Title: sys, Rows: []Row{{Name: "small"}, {Name: "large"}}}
		t := 0.0
		for k := range 4 {
			p.Rows[0].Spans = append(p.Rows[0].Spans, Span{t, t + 1, "small step", fmt.Sprint(6 - k)})
			t += 1 + float64(i)*0.7
		}
		t = 1
		for k := range 2 + i {
			p.Rows[1].Spans = append(p.Rows[1].Spans, Span{t, t + 4, "large step", fmt.Sprintf("%d requests", 1+k%2)})
			t += 4
		}
		for r, tokens := range []string{"SSS", "SSSS", "SLSS", "SLSL", "SLSL", "LLLL"} {
			row := Row{Name: fmt.Sprintf("request %d", r+1), Apart: r == 0}
			t := 0.0
			for k, c := range tokens {
				if wait := float64((r+k+i)%3) * 0.5; wait > 0 {
					row.Spans = append(row.Spans, Span{t, t + wait, "waiting", ""})
					t += wait
				}
				if c == 'S' {
					row.Spans = append(row.Spans, Span{t, t + 1, "small step", "S"})
					t++
				} else {
					row.Spans = append(row.Spans, Span{t, t + 4, "large step", "L"})
					t += 4
				}
			}
			p.Rows = append(p.Rows, row)
		}
		g.Panels = append(g.Panels, p)
	}
	return g
}

func gains() *Heatmap {
	h := &Heatmap{
		Title: "Gain of delayed batching over B = 1 (chain, 16 requests)", XLabel: "threshold B of the large model",
		YLabel: "routing probability p", ValueLabel: "gain (%)", Sign: true, Best: true, Decimals: 1, Limit: 20,
	}
	for b := 1; b <= 8; b++ {
		h.XNames = append(h.XNames, fmt.Sprint(b))
	}
	for j, p := range []float64{0.02, 0.05, 0.1, 0.2, 0.4, 0.6} {
		h.YNames = append(h.YNames, fmt.Sprint(p))
		var row []float64
		for b := 1.0; b <= 8; b++ {
			best := 1 + 12*p
			row = append(row, 40*p*(1-math.Pow((b-best)/(best-0.99), 2)*0.6)-16*p+6*p*(b-1)/7)
		}
		row[0] = 0
		if j == 1 {
			row[7] = math.NaN()
		}
		h.Values = append(h.Values, row)
	}
	return h
}
