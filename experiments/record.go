package experiments

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/tokenrouter/tokenrouter/internal/metrics"
)

// Status says what became of a cell.
type Status string

// What can become of a cell.
const (
	StatusOK            Status = "ok"
	StatusNotApplicable Status = "not applicable" // the place cannot show this; the reason says why
	StatusError         Status = "error"          // tried again by the next run
)

// Outcome is what an evaluator says of one cell.
type Outcome struct {
	Status  Status
	Reason  string          // unless the status is ok
	Summary metrics.Summary // if the status is ok
	Large   int             // index of the model whose share of tokens counts as large

	// OverheadUs is what lies between the end of one step and the start of the
	// next, microseconds: scheduler and hand-off. NaN unless it was measured.
	OverheadUs metrics.Quantiles

	Warnings []Warning // if the status is ok
}

// Failed is the outcome of a cell that broke.
func Failed(err error) Outcome { return Outcome{Status: StatusError, Reason: err.Error()} }

// NotApplicable is the outcome of a cell that its place cannot show.
func NotApplicable(reason string) Outcome {
	return Outcome{Status: StatusNotApplicable, Reason: reason}
}

// Record is the outcome of one cell with its figures laid out.
type Record struct {
	Status Status
	Reason string
	Values []float64 // in the order of Figures; nil unless the status is ok

	Warnings []Warning
}

// newRecord lays the figures out as Figures names them.
func newRecord(o Outcome, models, classes int, measured bool) Record {
	r := Record{Status: o.Status, Reason: o.Reason}
	if o.Status == StatusOK {
		r.Values, r.Warnings = figureValues(&o.Summary, models, classes, o.Large), o.Warnings
		if measured {
			r.Values = append(r.Values, measuredValues(&o, models)...)
		}
	}
	return r
}

// Results is what an experiment showed: one record for each cell of the plan.
type Results struct {
	Plan    *Plan
	Version string
	Records []Record
	Figures []Figure
	Reused  int // evaluations taken over from an earlier run
	Ran     int // evaluations made now
}

// Failures counts the cells that broke.
func (r *Results) Failures() int {
	n := 0
	for _, record := range r.Records {
		if record.Status == StatusError {
			n++
		}
	}
	return n
}

// NothingApplies returns the reason of the first cell if no place could show
// any cell, else "".
func (r *Results) NothingApplies() string {
	for _, record := range r.Records {
		if record.Status != StatusNotApplicable {
			return ""
		}
	}
	return r.Records[0].Reason
}

// JSON writes cell i as one line of JSON, the newline left out.
func (r *Results) JSON(i int) []byte {
	c, record := r.Plan.Cells[i], r.Records[i]
	dst := appendString([]byte(`{"experiment":`), r.Plan.Name)
	dst = appendString(append(dst, `,"system":`...), c.System)
	dst = appendString(append(dst, `,"on":`...), c.On)
	dst = append(dst, `,"seed":`...)
	if c.On == OnChain {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendUint(dst, c.Seed, 10)
	}
	if IsReal(c.On) {
		dst = append(dst, `,"measured":true`...) // another run finds other figures
	}
	dst = appendString(append(dst, `,"status":`...), string(record.Status))
	if record.Reason != "" {
		dst = appendString(append(dst, `,"reason":`...), record.Reason)
	}
	for j, w := range record.Warnings {
		dst = appendString(append(dst, []string{`,`, `,"warnings":[`}[btoi(j == 0)]...), w.String())
	}
	if len(record.Warnings) > 0 {
		dst = append(dst, ']')
	}
	dst = append(dst, `,"settings":{`...)
	for j, s := range c.Point.Settings {
		if j > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, s.Path), ':')
		dst = append(dst, jsonValue(s.Value)...)
	}
	dst = append(dst, `},`...)
	values := record.Values
	if values == nil {
		values = make([]float64, len(r.Figures))
		for j := range values {
			values[j] = math.NaN()
		}
	}
	dst = appendFigures(dst, r.Figures, values)
	dst = appendString(append(dst, `,"version":`...), r.Version)
	return append(dst, '}')
}

func appendString(dst []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("experiments: a string is not JSON: %v", err))
	}
	return append(dst, text...)
}

// appendNumber writes the shortest text that reads back as x; JSON has no NaN
// and no infinity, both are null.
func appendNumber(dst []byte, x float64) []byte {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, x, 'g', -1, 64)
}

// ModelNames lists the names of the plan's models.
func (p *Plan) ModelNames() []string {
	var names []string
	for _, m := range p.Points[0].Spec.Models {
		names = append(names, m.Name)
	}
	return names
}
