package experiments

import (
	"fmt"
	"math"
	"slices"
)

// Comparison sets what was measured of one cell beside what was predicted and
// simulated of it. Figures that were not found are NaN.
type Comparison struct {
	Point  *Point
	System string
	Place  string // where it was measured

	Settled []Threshold // see Point.Settled
	Same    []*Point    // others that come to the same for the system

	Chain, Sim, Measured float64 // token/s
	LongSim              float64 // token/s, over a window so long that chance plays no part; see Plan.Long
	RelSE, SimRelSE      float64 // relative standard errors of Measured and Sim
	// SimBatch and Batch are requests a step, and B the threshold in force, by
	// model; PerUser is in token/s.
	SimBatch, Batch, B           []float64
	SimStepMs, StepMs            []float64 // mean, by model
	SimPerUser, PerUser          float64
	OverheadP50Us, OverheadP99Us float64

	Verdict Verdict
	Why     string // unless the verdict is ok
}

// Verdict says whether a measurement agrees.
type Verdict string

const (
	Agrees     Verdict = "ok"
	Differs    Verdict = "differs"
	Unmeasured Verdict = "not measured"
)

// Tolerance is how far a measurement may be off.
type Tolerance struct {
	Rel        float64 // of throughput, against the simulator and, where it has an answer, the chain
	OverheadUs float64 // p50 of what lies between two steps; 0: any
}

// Compare lists the measured cells of the results, seeds gathered, each once:
// cells that differ in a threshold that their rule does not read are one, and so
// are those of which one was told the threshold that the chain found for another.
func Compare(r *Results, tol Tolerance) []Comparison {
	rows := r.Rows()
	var out []Comparison
	seen := map[string]int{}
	for i := range rows {
		row := &rows[i]
		if !IsReal(row.On) {
			continue
		}
		key := Cell{Point: row.Point, System: row.System, On: row.On}.settledKey()
		if k, again := seen[key]; again {
			out[k].Same = append(out[k].Same, row.Point)
			continue
		}
		seen[key] = len(out)
		c := Comparison{Point: row.Point, System: row.System, Place: row.On, Settled: row.Point.Settled()}
		other := func(on string) *Row {
			k := slices.IndexFunc(rows, func(o Row) bool { return o.Point == row.Point && o.System == row.System && o.On == on })
			if k < 0 || rows[k].Status != StatusOK {
				return nil
			}
			return &rows[k]
		}
		c.fill(r, row, other(OnChain), other(OnSim))
		c.judge(row, tol)
		out = append(out, c)
	}
	return out
}

func (c *Comparison) fill(r *Results, measured, chain, sim *Row) {
	figure := func(row *Row, name string) float64 {
		k := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name })
		if row == nil || k < 0 {
			return math.NaN()
		}
		return row.Mean[k]
	}
	const throughput, perUser = "throughput_tok_per_s", "per_user_tok_per_s"
	c.Chain, c.Sim, c.Measured = figure(chain, throughput), figure(sim, throughput), figure(measured, throughput)
	c.RelSE, c.SimRelSE, c.LongSim = figure(measured, "throughput_rel_se"), figure(sim, "throughput_rel_se"), math.NaN()
	c.SimPerUser, c.PerUser = figure(sim, perUser), figure(measured, perUser)
	for _, m := range r.Plan.ModelNames() {
		c.SimBatch = append(c.SimBatch, figure(sim, "mean_batch."+m))
		c.Batch = append(c.Batch, figure(measured, "mean_batch."+m))
		c.SimStepMs = append(c.SimStepMs, figure(sim, "mean_step_ms."+m))
		c.StepMs = append(c.StepMs, figure(measured, "mean_step_ms."+m))
		c.B = append(c.B, figure(measured, "b_in_force."+m))
	}
	c.OverheadP50Us, c.OverheadP99Us = figure(measured, "overhead_us.p50"), figure(measured, "overhead_us.p99")
}

func (c *Comparison) judge(row *Row, tol Tolerance) {
	if row.Status != StatusOK {
		c.Verdict, c.Why = Unmeasured, row.Reason
		if row.Status == StatusError {
			c.Verdict = Differs
		}
		return
	}
	c.Verdict = Agrees
	for _, against := range []struct {
		name         string
		value, noise float64
	}{
		// The simulator plays the same requests for as long, hand-off by hand-off;
		// the chain knows means, from which a short run strays by chance.
		{"the simulator", c.Sim, 0},
		{"the chain", c.Chain, 2 * c.RelSE},
	} {
		off := c.Measured/against.value - 1
		allowed := tol.Rel
		if !math.IsNaN(against.noise) {
			allowed += against.noise
		}
		if !math.IsNaN(off) && math.Abs(off) > allowed {
			c.Verdict = Differs
			c.Why = fmt.Sprintf("%+.1f %% against %s, more than %.3g %%", 100*off, against.name, 100*allowed)
			return
		}
	}
	if tol.OverheadUs > 0 && c.OverheadP50Us > tol.OverheadUs {
		c.Verdict = Differs
		c.Why = fmt.Sprintf("%.0f µs between two steps, more than %.0f", c.OverheadP50Us, tol.OverheadUs)
	}
	if math.IsNaN(c.Sim) && math.IsNaN(c.Chain) {
		c.Verdict, c.Why = Unmeasured, "nothing to compare it with"
	}
}

// longTimes is how much longer than a measurement a simulation lasts that shows
// the mean: a fifth of its noise is left, a few per mille of what 8 s have.
const longTimes = 25

// Long is the plan's simulations, in a window so long that chance averages out;
// nil where the requests themselves end a run.
func (p *Plan) Long() *Plan {
	m := p.Points[0].Spec.Measure
	if p.Window() == nil {
		return nil
	}
	long := *p
	long.On, long.Points, long.Cells = []string{OnSim}, nil, nil
	points := map[*Point]*Point{}
	for _, point := range p.Points {
		spec := *point.Spec
		spec.Workload.DurationS, spec.Workload.WarmupS = longTimes*m.DurationS, max(m.WarmupS, m.DurationS)
		points[point] = &Point{Spec: &spec, Settings: point.Settings, Swept: point.Swept}
		long.Points = append(long.Points, points[point])
	}
	for _, c := range p.Cells {
		if c.On == OnSim {
			c.Point = points[c.Point]
			long.Cells = append(long.Cells, c)
		}
	}
	return &long
}

// FillLong takes LongSim over from the results of the same cells, of Plan.Long.
func FillLong(all []Comparison, long *Results) {
	rows := long.Rows()
	k := slices.IndexFunc(long.Figures, func(f Figure) bool { return f.Name == "throughput_tok_per_s" })
	for i := range all {
		c := &all[i]
		for _, row := range rows {
			if row.On == OnSim && row.Status == StatusOK && row.System == c.System && sweptText(row.Point) == sweptText(c.Point) {
				c.LongSim = row.Mean[k]
			}
		}
	}
}

// Window are the settings that let the simulator play the plan for as long as
// it is measured; none where the requests themselves end a run.
func (p *Plan) Window() []string {
	m := p.Points[0].Spec.Measure
	if m.DurationS == 0 || p.Points[0].Spec.Workload.Requests > 0 {
		return nil
	}
	return []string{"workload.duration_s=" + formatFloat(m.DurationS), "workload.warmup_s=" + formatFloat(m.WarmupS)}
}
