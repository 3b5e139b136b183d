package steptime

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// twinMs is the slow twin of a compiled profile: the same definition, in float64,
// by plain interpolation on the grid, sharing no code with it.
func twinMs(p *Profile, requests, rows, contextTokens int) float64 {
	b, r, ctx := float64(requests), float64(rows), float64(contextTokens)
	contexts, counts := floats(p.Table.ContextTokens), floats(p.Table.Requests)
	plane := func(j int) float64 {
		var byContext []float64
		for k := range contexts {
			var byRequests []float64
			for i := range counts {
				byRequests = append(byRequests, p.Table.Ms.Values[i][j][k])
			}
			byContext = append(byContext, line(counts, byRequests, b))
		}
		return line(contexts, byContext, ctx/b)
	}
	gpu := plane(0)
	if e := r - b; e > 0 && p.Rows != nil {
		axis := floats(p.Rows.Rows)
		gpu += max(line(axis, p.Rows.Ms, r)-line(axis, p.Rows.Ms, b), 0)
		gpu += e * (ctx/b - min(e, ctx/b)/2) * p.Rows.AttentionNsPerRowToken / 1e6
	} else if e > 0 {
		var byRows []float64
		for j := range p.Table.ExtraRows {
			byRows = append(byRows, plane(j))
		}
		gpu = line(floats(p.Table.ExtraRows), byRows, e)
	}
	return max(gpu, p.CPU.LaunchMs) + p.CPU.SerialMs
}

// line is piecewise linear through the points: flat before the first, and after
// the last along the last slope or flat.
func line(xs, ys []float64, x float64) float64 {
	last := len(xs) - 1
	if x <= xs[0] || last == 0 {
		return ys[0]
	}
	i := 1
	for i < last && x > xs[i] {
		i++
	}
	slope := (ys[i] - ys[i-1]) / (xs[i] - xs[i-1])
	if x > xs[last] {
		return ys[last] + max(slope, 0)*(x-xs[last])
	}
	return ys[i-1] + slope*(x-xs[i-1])
}

func floats(values []int) []float64 {
	out := make([]float64, len(values))
	for i, value := range values {
		out[i] = float64(value)
	}
	return out
}

func checkTwin(t *rapid.T, p *Profile, st StepTime) {
	requests := rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(1, 6000)).Draw(t, "requests")
	rows := requests + rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 64), rapid.IntRange(0, 9000)).Draw(t, "extra rows")
	// 2 M tokens is three times the KV that fits on the GPU for the smallest model.
	context := rapid.IntRange(0, 1<<21).Draw(t, "context")
	if rapid.Bool().Draw(t, "in range") {
		context = requests * rapid.IntRange(0, 9000).Draw(t, "mean context")
	}
	got := st.Ns(requests, rows, context)
	want := min(twinMs(p, requests, rows, context)*1e6, unitsMax>>fractionBits+1)
	if fits := msMax * 1e6; want > fits {
		// A step of 1,000 s fits; of longer ones terms may have stopped growing.
		if limit := int64(unitsMax>>fractionBits + 1); float64(got) < fits || got > limit {
			t.Fatalf("%s: (%d, %d, %d) takes %d ns, the twin says %.3f, so at least %.0f and at most %d", p.Name, requests, rows, context, got, want, fits, limit)
		}
		return
	}
	// Past a second, float64 milliseconds themselves are no longer good to 1 ns.
	if math.Abs(float64(got)-want) > 1+want*1e-12 {
		t.Fatalf("%s: (%d, %d, %d) takes %d ns, the twin says %.3f", p.Name, requests, rows, context, got, want)
	}
}

func TestShippedAgainstTwin(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			p := load(t, name)
			st := p.Compile()
			rapid.Check(t, func(t *rapid.T) { checkTwin(t, p, st) })
		})
	}
}

// drawAxis rises from first in steps of at most stepMax.
func drawAxis(t *rapid.T, name string, first, stepMax, most int) []int {
	axis := []int{first}
	for _, step := range rapid.SliceOfN(rapid.IntRange(1, stepMax), 0, most-1).Draw(t, name) {
		axis = append(axis, axis[len(axis)-1]+step)
	}
	return axis
}

// drawProfile is any valid profile: uneven, falling, with and without extra rows.
func drawProfile(t *rapid.T) *Profile {
	ms := rapid.Custom(func(t *rapid.T) float64 {
		return float64(rapid.IntRange(1_000, 50_000_000).Draw(t, "ns")) / 1e6
	})
	p := &Profile{
		Name: "drawn", Origin: "drawn", Licence: "none", Engine: "none", EngineVersion: "0", GPU: "none",
		Model: "none", TP: 1, Notes: "drawn",
		Valid: Range{[2]int{1, 9}, [2]int{1, 9}, [2]int{0, 9}},
		CPU:   CPU{LaunchMs: rapid.SampledFrom([]float64{0, 0.5, 12.25}).Draw(t, "launch"), SerialMs: rapid.SampledFrom([]float64{0, 0.125}).Draw(t, "serial")},
	}
	p.Table.Requests = drawAxis(t, "requests", 1, 40, 5)
	p.Table.ContextTokens = drawAxis(t, "contexts", rapid.IntRange(0, 500).Draw(t, "first context"), 3000, 6)
	planes := 1
	if rapid.Bool().Draw(t, "has extra rows") {
		p.Table.ExtraRows = drawAxis(t, "extra rows", 0, 700, 4)
		planes = len(p.Table.ExtraRows)
	} else {
		p.Table.Ms.flat = true
		p.Rows = &RowPrice{Rows: drawAxis(t, "rows", 1, 700, 6), AttentionNsPerRowToken: rapid.SampledFrom([]float64{0, 0.3, 5.4205}).Draw(t, "attention")}
		for i := range p.Rows.Rows {
			p.Rows.Ms = append(p.Rows.Ms, float64(i)*1.75)
		}
	}
	for range p.Table.Requests {
		var middle [][]float64
		for range planes {
			middle = append(middle, rapid.SliceOfN(ms, len(p.Table.ContextTokens), len(p.Table.ContextTokens)).Draw(t, "ms"))
		}
		p.Table.Ms.Values = append(p.Table.Ms.Values, middle)
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDrawnAgainstTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProfile(t)
		st := p.Compile()
		for range 5 {
			checkTwin(t, p, st)
		}
	})
}

func TestExactAtGridPoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProfile(t)
		st := p.Compile()
		extras := p.Table.ExtraRows
		if len(extras) == 0 {
			extras = []int{0}
		}
		for i, requests := range p.Table.Requests {
			for j, extra := range extras {
				for k, context := range p.Table.ContextTokens {
					want := math.Round((max(p.Table.Ms.Values[i][j][k], p.CPU.LaunchMs) + p.CPU.SerialMs) * 1e6)
					if got := st.Ns(requests, requests+extra, requests*context); got != int64(want) {
						t.Fatalf("cell [%d][%d][%d]: %d ns, want %.0f", i, j, k, got, want)
					}
				}
			}
		}
	})
}

// Where every line of the table rises, so does the step time, in requests at one
// context per request, in context, and in rows; beyond the grid it never falls
// below its edge whatever the table does.
func TestMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProfile(t)
		last := len(p.Table.ContextTokens) - 1
		edge := p.Compile()
		atEdge := edge.Ns(1, 1, p.Table.ContextTokens[last])
		more := rapid.IntRange(1, 1<<20).Draw(t, "beyond")
		if got := edge.Ns(1, 1, p.Table.ContextTokens[last]+more); got < atEdge {
			t.Fatalf("%d ns beyond the last context, %d ns at it", got, atEdge)
		}
		for i, middle := range p.Table.Ms.Values {
			for j, cells := range middle {
				for k := range cells {
					cells[k] = 1 + float64(i) + float64(j)/3 + float64(k)/7
				}
			}
		}
		st := p.Compile()
		requests := rapid.IntRange(1, 300).Draw(t, "requests")
		extra := rapid.IntRange(0, 3000).Draw(t, "extra")
		context := rapid.IntRange(0, 9000).Draw(t, "context")
		here := st.Ns(requests, requests+extra, requests*context)
		for _, c := range []struct {
			what string
			more int64
		}{
			{"requests", st.Ns(requests+1, requests+1, (requests+1)*context) - st.Ns(requests, requests, requests*context)},
			{"context", st.Ns(requests, requests+extra, requests*context+1) - here},
			{"rows", st.Ns(requests, requests+extra+1, requests*context) - here},
		} {
			if c.more < -1 { // each of the two was rounded by itself
				t.Fatalf("falls by %d ns with more %s", -c.more, c.what)
			}
		}
	})
}

// Second differences vanish inside a stretch: linear in the summed context.
func TestLinearInContext(t *testing.T) {
	for _, name := range Names() {
		p := load(t, name)
		p.CPU.LaunchMs = 0 // max(GPU, launch) bends
		st := p.Compile()
		for _, requests := range []int{1, 3, 8, 48, 64, 100} {
			for k, from := range p.Table.ContextTokens {
				to := 4 * from
				if k+1 < len(p.Table.ContextTokens) {
					to = p.Table.ContextTokens[k+1]
				}
				a, c := requests*from, requests*to
				bend := st.Ns(requests, requests, a) + st.Ns(requests, requests, c) - 2*st.Ns(requests, requests, (a+c)/2)
				if bend < -2 || bend > 2 {
					t.Errorf("%s: %d requests, %d to %d tokens: bends by %d ns", name, requests, from, to, bend)
				}
			}
		}
	}
}
