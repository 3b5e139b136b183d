package profiling

import (
	"fmt"
	"math"
	"strings"

	"github.com/tokenrouter/tokenrouter/internal/steptime"
)

// Meta says of a measured profile what the times do not.
type Meta struct {
	Origin, Licence, Engine, EngineVersion, Machine, Model string
	Notes                                                  string // more of them
}

// Profile makes a profile of the times: the steps of one row a request as a
// table, and what further rows add by the steps of one request that feeds many.
func (t *Times) Profile(meta Meta) (*steptime.Profile, error) {
	g := &t.Grid
	p := &steptime.Profile{
		Name: "measured", Origin: meta.Origin, Licence: meta.Licence, Engine: meta.Engine, EngineVersion: meta.EngineVersion,
		GPU: meta.Machine, Model: meta.Model, TP: 1,
		Table: steptime.Table{Requests: g.Requests, ContextTokens: g.Contexts},
		Valid: steptime.Range{
			Requests:      [2]int{1, g.Requests[len(g.Requests)-1]},
			Rows:          [2]int{1, max(g.Rows[len(g.Rows)-1], g.Requests[len(g.Requests)-1])},
			ContextTokens: [2]int{0, g.Contexts[len(g.Contexts)-1]},
		},
	}
	var ms [][]float64
	for _, r := range g.Requests {
		var line []float64
		for _, c := range g.Contexts {
			line = append(line, round(t.of(Point{r, r, c})))
		}
		ms = append(ms, line)
	}
	p.Table.Ms = steptime.FlatCells(ms)
	p.Rows = t.rowPrice()
	p.Notes = t.notes(meta.Notes)
	if err := p.Check(); err != nil {
		return nil, err
	}
	p.Notes += missText(t.Misses(p))
	return p, nil
}

// rowPrice takes the attention of one row, by how much a longer context slows
// down a step of one request, out of the steps that feed many: what is left
// depends on the number of rows alone.
func (t *Times) rowPrice() *steptime.RowPrice {
	g := &t.Grid
	first, last := g.Contexts[0], g.Contexts[len(g.Contexts)-1]
	price := &steptime.RowPrice{Rows: g.Rows}
	if last > first {
		slope := (t.of(Point{1, 1, last}) - t.of(Point{1, 1, first})) / float64(last-first)
		price.AttentionNsPerRowToken = round(max(slope, 0) * 1e6)
	}
	one := t.of(Point{1, 1, first})
	for _, rows := range g.Rows {
		at := Point{1, rows, first}
		extra, context := float64(rows-1), float64(at.context())
		attention := price.AttentionNsPerRowToken / 1e6 * (extra*(context-min(extra, context)/2) + (context - float64(first)))
		price.Ms = append(price.Ms, t.of(at)-attention)
	}
	price.Ms = rising(price.Ms)
	for i := range price.Ms {
		price.Ms[i] = round(max(price.Ms[i], one*1e-3))
	}
	return price
}

// rising is the nearest list, by squares, that never falls: neighbours that do
// share their mean. More rows cannot take less time; where they seem to, it is
// chance.
func rising(x []float64) []float64 {
	type pool struct {
		sum   float64
		count int
	}
	var pools []pool
	for _, v := range x {
		pools = append(pools, pool{v, 1})
		for n := len(pools); n > 1 && pools[n-2].sum/float64(pools[n-2].count) > pools[n-1].sum/float64(pools[n-1].count); n-- {
			pools[n-2] = pool{pools[n-2].sum + pools[n-1].sum, pools[n-2].count + pools[n-1].count}
			pools = pools[:n-1]
		}
	}
	var out []float64
	for _, p := range pools {
		for range p.count {
			out = append(out, p.sum/float64(p.count))
		}
	}
	return out
}

// round keeps nanoseconds in a time in ms: what lies below is noise.
func round(ms float64) float64 { return math.Round(ms*1e6) / 1e6 }

// Miss is a step that the profile was not made from, and what it says of it.
type Miss struct {
	Point
	MeasuredMs, ProfileMs float64
}

// Error is relative to what was measured.
func (m *Miss) Error() float64 { return m.ProfileMs/m.MeasuredMs - 1 }

// Misses compares a profile with the steps that were held out.
func (t *Times) Misses(p *steptime.Profile) []Miss {
	compiled := p.Compile()
	var out []Miss
	for i := range t.Steps {
		if s := &t.Steps[i]; s.HeldOut {
			ms := float64(compiled.Ns(s.Requests, s.Rows, s.Requests*s.context())) / 1e6
			out = append(out, Miss{s.Point, s.MedianMs(), ms})
		}
	}
	return out
}

// Worst is the miss with the largest error, and the mean of all, without signs.
func Worst(misses []Miss) (worst Miss, mean float64) {
	for _, m := range misses {
		mean += math.Abs(m.Error()) / float64(len(misses))
		if worst.MeasuredMs == 0 || math.Abs(m.Error()) > math.Abs(worst.Error()) {
			worst = m
		}
	}
	return worst, mean
}

func missText(misses []Miss) string {
	if len(misses) == 0 {
		return ""
	}
	worst, mean := Worst(misses)
	return fmt.Sprintf("On %d kinds of step that were held out it errs by %.1f %% on average, at worst by %+.1f %% (%v).\n",
		len(misses), 100*mean, 100*worst.Error(), worst.Point)
}

func (t *Times) notes(more string) string {
	repeats := 0
	if len(t.Steps) > 0 {
		repeats = len(t.Steps[0].Ms)
	}
	text := fmt.Sprintf("Measured: whole steps of the engine, medians of %d, the grid gone through in a new order each time.\n", repeats)
	if more = strings.TrimSpace(more); more != "" {
		text += more + "\n"
	}
	return text
}
