package evidence

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
)

// Grid of the tables made from measured kernels. From 128 requests on, GEMMs are
// those of the origin's own grid, which has none at 128 rows.
var (
	requestsAxis = []int{1, 2, 4, 8, 16, 32, 64, 128, 256}
	contextsAxis = []int{64, 128, 256, 512, 1024, 2048, 4096, 8192}
	rowsAxis     = []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096}
)

// elementwiseUs is assumed for each layer, see the profiles' notes.
const elementwiseUs = 15

// Measured lists the models, sizes and engines of which every kernel was
// measured: (engine, model, TP).
func Measured() []steptime.Roofline {
	t := readTable("opsum")
	var all []steptime.Roofline
	for row := range t.rows {
		r := steptime.Roofline{GPU: "a100-80gb", Config: t.text(row, "model"), TP: t.count(row, "tp"), Engine: t.text(row, "engine")}
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all
}

// measured makes the table of one model from the kernels of its exact shapes.
type measured struct {
	engine string
	config *modelconfig.Config
	tp     int
	ops    map[int]ops // by requests
	gemm   map[[2]int]map[int]float64
	notes  []string
}

// ops are the parts of a step that depend on the number of requests alone, in us.
type ops struct{ gemm, allReduce, lmHead float64 }

// Profile is a profile whose table sums measured kernels. r must be one that
// [Measured] lists, with any variant.
func Profile(r steptime.Roofline) (*steptime.Profile, error) {
	p, err := r.Profile() // engine, CPU part and shape
	if err != nil {
		return nil, err
	}
	config, err := modelconfig.Find(r.Config)
	if err != nil {
		return nil, err
	}
	m := &measured{engine: r.Engine, config: config, tp: r.TP, ops: map[int]ops{}, gemm: map[[2]int]map[int]float64{}}
	m.readOps()
	gemmTimes(r.Engine, func(rows, outputs, inputs int, us float64) {
		at := [2]int{outputs, inputs}
		if m.gemm[at] == nil {
			m.gemm[at] = map[int]float64{}
		}
		m.gemm[at][rows] = us
	})
	cpuNote := p.Notes[strings.LastIndex(p.Notes, "\n\n"):]
	p.Origin = "ai-dynamo/aiconfigurator system data a100_sxm (2026), sums of kernel times; derived"
	p.Valid = steptime.Range{Requests: [2]int{1, 256}, Rows: [2]int{1, 4096}, ContextTokens: [2]int{0, 8192}}
	p.Rows = m.rowPrice()
	p.Table = steptime.Table{Requests: requestsAxis, ContextTokens: contextsAxis, Ms: steptime.FlatCells(m.table())}
	p.Notes = m.text() + cpuNote
	return p, nil
}

func (m *measured) readOps() {
	t := readTable("opsum")
	for row := range t.rows {
		if t.text(row, "engine") != m.engine || t.text(row, "model") != m.config.Name || t.count(row, "tp") != m.tp {
			continue
		}
		gemm, _ := t.number(row, "gemm_us_per_layer")
		allReduce, _ := t.number(row, "allreduce_us_per_layer")
		lmHead, _ := t.number(row, "lm_head_us")
		m.ops[t.count(row, "requests")] = ops{gemm, allReduce, lmHead}
	}
}

// heads of one GPU. Every listed model divides evenly.
func (m *measured) heads() (query, kv int) { return m.config.Heads / m.tp, m.config.KVHeads / m.tp }

// layerGEMMs are the four products of a layer at rows of the origin's grid.
func (m *measured) layerGEMMs(rows int) float64 {
	q, kv := m.heads()
	c := m.config
	return m.product(rows, (q+2*kv)*c.HeadDim, c.Hidden) + m.product(rows, c.Hidden, q*c.HeadDim) +
		m.product(rows, 2*c.Intermediate/m.tp, c.Hidden) + m.product(rows, c.Hidden, c.Intermediate/m.tp)
}

// product is a GEMM, linear in outputs and in inputs between measured ones, and
// beyond them.
func (m *measured) product(rows, outputs, inputs int) float64 {
	var ns, ks []int
	for at := range m.gemm { // order: sorted below
		ns, ks = append(ns, at[0]), append(ks, at[1])
	}
	around := func(values []int, x int) (low, high int, share float64) {
		slices.Sort(values)
		values = slices.Compact(values)
		i, _ := slices.BinarySearch(values, x)
		i = min(max(i, 1), len(values)-1)
		low, high = values[i-1], values[i]
		return low, high, float64(x-low) / float64(high-low)
	}
	n0, n1, n := around(ns, outputs)
	k0, k1, k := around(ks, inputs)
	at := func(outputs, inputs int) float64 {
		us, ok := m.gemm[[2]int{outputs, inputs}][rows]
		if !ok {
			return math.NaN()
		}
		return us
	}
	mix := func(y0, y1, share float64) float64 {
		switch share {
		case 0:
			return y0
		case 1:
			return y1
		}
		return y0 + (y1-y0)*share
	}
	return mix(mix(at(n0, k0), at(n1, k0), n), mix(at(n0, k1), at(n1, k1), n), k)
}

// at is ops at any number of requests on the axis.
func (m *measured) at(requests int) ops {
	if o, ok := m.ops[requests]; ok {
		return o
	}
	if requests == 128 {
		few, many := m.at(64), m.at(256)
		return ops{max(few.gemm, many.gemm/2), m.allReduce(requests), max(few.lmHead, many.lmHead/2)}
	}
	return ops{m.layerGEMMs(requests), m.allReduce(requests), m.product(requests, m.config.Vocab/m.tp, m.config.Hidden)}
}

// allReduce is two of them, over the rows of a step.
func (m *measured) allReduce(rows int) float64 {
	if m.tp == 1 {
		return 0
	}
	t := readTable("allreduce")
	first, sizes := t.axis("b")
	bytes := rows * m.config.Hidden * 2
	for row := range t.rows {
		if t.text(row, "engine") != m.engine || t.text(row, "variant") != "graph" || t.count(row, "gpus") != m.tp {
			continue
		}
		i, _ := slices.BinarySearch(sizes, bytes)
		i = min(max(i, 1), len(sizes)-1)
		y0, _ := t.cell(row, first+i-1)
		y1, _ := t.cell(row, first+i)
		return 2 * (y0 + (y1-y0)*float64(bytes-sizes[i-1])/float64(sizes[i]-sizes[i-1]))
	}
	panic(fmt.Sprintf("evidence: no all-reduce over %d GPUs of %s", m.tp, m.engine))
}

func (m *measured) table() [][]float64 {
	var ms [][]float64
	attention := m.attention()
	for i, requests := range requestsAxis {
		o := m.at(requests)
		var line []float64
		for _, us := range attention[i] {
			line = append(line, roundMs((float64(m.config.Layers)*(o.gemm+us+o.allReduce+elementwiseUs)+o.lmHead)/1e3))
		}
		ms = append(ms, line)
	}
	return ms
}

func roundMs(ms float64) float64 { return math.Round(ms*1e3) / 1e3 }

// rowPrice is what a step's rows cost beside attention and output projection.
func (m *measured) rowPrice() *steptime.RowPrice {
	q, kv := m.heads()
	price := &steptime.RowPrice{Rows: rowsAxis, AttentionNsPerRowToken: m.promptNs(q, kv)}
	c := m.config
	bytes := 2 * (8*c.Hidden + 4*(q+kv)*c.HeadDim + 3*c.Intermediate/m.tp)
	most := 0.0
	for _, rows := range rowsAxis {
		var o ops
		if rows <= 256 {
			o = m.at(rows)
		} else {
			o = ops{gemm: m.layerGEMMs(rows), allReduce: m.allReduce(rows)}
		}
		elementwise := max(elementwiseUs, float64(rows*bytes)/1.58e6)
		most = max(most, roundMs(float64(c.Layers)*(o.gemm+o.allReduce+elementwise)/1e3))
		price.Ms = append(price.Ms, most)
	}
	return price
}

// promptNs is the attention of extra rows over all layers, in ns per row and token:
// what a prompt of 8192 tokens takes, spread over the pairs of its tokens.
func (m *measured) promptNs(query, kv int) float64 {
	t := readTable("attention")
	for row := range t.rows {
		us, ok := t.number(row, "c8192_us")
		if ok && t.text(row, "phase") == "prefill" && t.count(row, "q_heads") == query && t.count(row, "kv_heads") == kv {
			return math.Round(us*1e3*float64(m.config.Layers)/(8192*8192/2)*1e4) / 1e4
		}
	}
	panic(fmt.Sprintf("evidence: no prompt attention of %d query and %d KV heads", query, kv))
}

// Older is a profile of an engine version whose CPU time is known but whose
// kernels are not, so taken from the version of r.
func Older(r steptime.Roofline, engine string) (*steptime.Profile, error) {
	r.Variant = steptime.VariantGraphs
	p, err := Profile(r)
	if err != nil {
		return nil, err
	}
	kernelNotes := p.Notes[:strings.LastIndex(p.Notes, "\n\n")]
	r.Engine = engine
	cpu, err := r.Profile()
	if err != nil {
		return nil, err
	}
	p.Name, p.CPU, p.EngineVersion = cpu.Name, cpu.CPU, cpu.EngineVersion
	p.Notes = kernelNotes + cpu.Notes[strings.LastIndex(cpu.Notes, "\n\n"):]
	return p, nil
}
