package frontdoor

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// exposition writes metrics in Prometheus' text format 0.0.4.
type exposition struct {
	b bytes.Buffer
}

const expositionType = "text/plain; version=0.0.4; charset=utf-8"

// label is a name and a value.
type label struct{ name, value string }

var escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// family begins a family of series: all of one name stand together.
func (e *exposition) family(name, kind, help string) {
	e.b.WriteString("# HELP " + name + " " + strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help) + "\n")
	e.b.WriteString("# TYPE " + name + " " + kind + "\n")
}

// sample writes one line; labels come in two parts, because histograms add one.
func (e *exposition) sample(name string, value float64, labels []label, more ...label) {
	e.b.WriteString(name)
	sign := byte('{')
	for _, list := range [][]label{labels, more} {
		for _, l := range list {
			e.b.WriteByte(sign)
			e.b.WriteString(l.name + `="` + escapeLabel.Replace(l.value) + `"`)
			sign = ','
		}
	}
	if sign == ',' {
		e.b.WriteByte('}')
	}
	e.b.WriteByte(' ')
	e.b.WriteString(number(value))
	e.b.WriteByte('\n')
}

func number(x float64) string {
	if math.IsInf(x, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// histogram counts values by the bucket that they fall into.
type histogram struct {
	bounds []float64 // of buckets, ascending; values up to and with a bound belong to it
	counts []uint64  // one more than bounds
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(x float64) {
	i := 0
	for i < len(h.bounds) && x > h.bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += x
}

// add adds the values of another one with the same bounds.
func (h *histogram) add(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.sum += o.sum
}

func (e *exposition) histogram(name string, h *histogram, labels []label) {
	total := uint64(0)
	for i, n := range h.counts {
		total += n
		bound := math.Inf(1)
		if i < len(h.bounds) {
			bound = h.bounds[i]
		}
		e.sample(name+"_bucket", float64(total), labels, label{"le", number(bound)})
	}
	e.sample(name+"_sum", h.sum, labels)
	e.sample(name+"_count", float64(total), labels)
}
