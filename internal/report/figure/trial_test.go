package figure

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

var figures = flag.String("figures", "", "folder to write the trial figures to, for a person to look at")

// trials are the pictures of the project with invented numbers.
func trials() map[string]Drawing {
	return map[string]Drawing{
		"quickstart": quickstart(),
		"sweep":      sweep(),
		"published":  published(),
		"log":        logAxes(),
		"pareto":     pareto(),
		"five":       fiveFacets(),
		"single":     single(),
		"schedules":  schedules(),
		"gains":      gains(),
	}
}

// bump is a throughput that first gains from a larger B and then starves.
func bump(b, height, best float64) float64 {
	return height * b / (b + 1.5) * math.Exp(-math.Pow(b/best, 2)/4)
}

func quickstart() *Figure {
	f := &Figure{
		Title:  "Delayed batching against B: a 32B model beside a 0.6B one, 8 requests",
		XLabel: "threshold B of the large model (requests)", YLabel: "throughput (tok/s)", YFromZero: true,
	}
	r := rand.New(rand.NewPCG(1, 2))
	for k, p := range []float64{0.1, 0.2, 0.4} {
		chain := Series{Name: "delayed, chain", Hue: "delayed"}
		sim := Series{Name: "delayed, simulated", Hue: "delayed", Style: Points}
		top, at := 0.0, 0.0
		for b := 1.0; b <= 8; b++ {
			y := bump(b, 900-200*float64(k), 7+2*float64(k)) + 200 - 40*float64(k)
			chain.X, chain.Y = append(chain.X, b), append(chain.Y, y)
			m := y + r.NormFloat64()*6
			sim.X, sim.Y = append(sim.X, b), append(sim.Y, m)
			sim.Low, sim.High = append(sim.Low, m-9), append(sim.High, m+9)
			if y > top {
				top, at = y, b
			}
		}
		f.Facets = append(f.Facets, Facet{
			Title:  fmt.Sprintf("routing probability p = %g", p),
			Series: []Series{chain, sim},
			Marks: []Mark{
				{Axis: AtY, Value: 420 - 60*float64(k), Label: "async"},
				{Axis: AtY, Value: 340 - 60*float64(k), Label: "alternate"},
				{Axis: AtY, Value: 290 - 60*float64(k), Label: "lockstep"},
				{Axis: AtPoint, X: at, Value: top, Label: fmt.Sprintf("best B = %g", at)},
			},
		})
	}
	return f
}

func sweep() *Figure {
	f := &Figure{Title: "Best B grows with load", XLabel: "threshold B (requests)", YLabel: "throughput (tok/s)", YFromZero: true}
	f.Facets = []Facet{{Marks: []Mark{{Axis: AtX, Value: 7, Label: "best B at 16"}, {Axis: AtY, Value: 372.48, Label: "published 372.48"}}}}
	for i, n := range []int{4, 8, 16, 32} {
		s := Series{Name: fmt.Sprintf("%d requests", n), Style: LinePoints}
		if i == 3 {
			s.Style = Line
		}
		for b := 1.0; b <= 12; b++ {
			y := bump(b, 250*float64(i+1), 5+2*float64(i))
			s.X, s.Y = append(s.X, b), append(s.Y, y)
			s.Low, s.High = append(s.Low, y-20), append(s.High, y+25)
		}
		f.Facets[0].Series = append(f.Facets[0].Series, s)
	}
	return f
}

func published() *Figure {
	return &Figure{
		Title: "Ablation: ours beside published (R2R, Qwen3-0.6B + 32B, 8 requests)", YLabel: "throughput (tok/s)", BarValues: true,
		XNames: []string{"official", "base", "+ CUDA graphs", "+ asynchronous", "+ delayed batching"},
		Facets: []Facet{{Series: []Series{
			{Name: "simulated", Style: Bars, X: []float64{0, 1, 2, 3, 4}, Y: []float64{141.2, 139.8, 221.4, 304.1, 374.3},
				Low: []float64{139, 138, 219, 301, 370}, High: []float64{143.3, 141.6, 223.8, 307.2, 378.5}},
			{Name: "chain", Style: Bars, X: []float64{2, 3, 4}, Y: []float64{220.9, 303.7, 374.0}},
			{Name: "published", Style: Reference, X: []float64{0, 1, 2, 3, 4}, Y: []float64{134.9, 132.78, 230.79, 296.86, 372.48}},
		}}},
	}
}

func logAxes() *Figure {
	f := &Figure{XLabel: "concurrency (requests)", YLabel: "throughput (tok/s)", XLog: true, YLog: true}
	for _, name := range []string{"closed load", "steady load"} {
		fc := Facet{Title: name}
		for i, sys := range []string{"tokenrouter", "async", "alternate", "official"} {
			s := Series{Name: sys, Style: LinePoints, Dashed: sys == "official"}
			for n := 1.0; n <= 64; n *= 2 {
				s.X = append(s.X, n)
				s.Y = append(s.Y, 60/float64(i+1)*math.Pow(n, 0.85-0.1*float64(i)))
			}
			fc.Series = append(fc.Series, s)
		}
		f.Facets = append(f.Facets, fc)
	}
	return f
}

func pareto() *Figure {
	f := &Figure{Title: "Cost and quality", XLabel: "GPU-seconds per 1k tokens", YLabel: "accuracy (%)", XLog: true}
	r := rand.New(rand.NewPCG(3, 4))
	cloud := Series{Name: "one setting", Hue: "token-level", Style: Points}
	front := Series{Name: "frontier", Hue: "token-level", Style: Step}
	best := 0.0
	for x := 0.06; x < 9; x *= 1.17 {
		y := 20 + 55*(1-math.Exp(-x*2))*(0.8+0.2*r.Float64())
		cloud.X, cloud.Y = append(cloud.X, x), append(cloud.Y, y)
		if y > best {
			best = y
			front.X, front.Y = append(front.X, x), append(front.Y, y)
		}
	}
	f.Facets = []Facet{{Series: []Series{front, cloud}, Marks: []Mark{{Axis: AtPoint, X: cloud.X[9], Value: cloud.Y[9], Label: "R2R's default"}}}}
	return f
}

func fiveFacets() *Figure {
	f := &Figure{Title: "Waiting by cause", XLabel: "B (requests)", YLabel: "waiting per token (ms)", YFromZero: true}
	for k := range 5 {
		fc := Facet{Title: fmt.Sprintf("p = %.1f", 0.1*float64(k+1))}
		for i, cause := range []string{"step in flight", "threshold", "KV blocks", "peer"} {
			s := Series{Name: cause}
			for b := 1.0; b <= 16; b++ {
				y := 3/float64(i+1) + 0.2*b*float64(i%2)
				s.X, s.Y = append(s.X, b), append(s.Y, y)
				s.Low, s.High = append(s.Low, y-0.3), append(s.High, y+0.3)
			}
			fc.Series = append(fc.Series, s)
		}
		f.Facets = append(f.Facets, fc)
	}
	return f
}

func single() *Figure {
	return &Figure{XLabel: "time (s)", YLabel: "live requests", Facets: []Facet{{Series: []Series{{Name: "", Style: Step, X: []float64{0, 1, 2.5, 4, 7}, Y: []float64{0, 3, 4, 2, 6}}}}}}
}

func render(t *testing.T, d Drawing) (svg, png []byte) {
	t.Helper()
	var a, b bytes.Buffer
	if err := WriteSVG(&a, d); err != nil {
		t.Fatal(err)
	}
	if err := WritePNG(&b, d, 200); err != nil {
		t.Fatal(err)
	}
	return a.Bytes(), b.Bytes()
}

// TestWriteTrials writes the pictures when asked to.
func TestWriteTrials(t *testing.T) {
	if *figures == "" {
		t.Skip("no -figures folder given")
	}
	for name, d := range trials() {
		svg, png := render(t, d)
		for ext, data := range map[string][]byte{".svg": svg, ".png": png} {
			if err := os.WriteFile(filepath.Join(*figures, name+ext), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
