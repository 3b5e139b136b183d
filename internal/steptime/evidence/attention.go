package evidence

import (
	"fmt"
	"slices"
	"strings"
)

// outlier is a cell of the origin that contradicts its neighbours and the cells
// of the same work in other head shapes.
type outlier struct {
	engine            string
	query, kv         int
	requests, context int
}

var outliers = []outlier{{"vllm-0.14", 32, 4, 4, 512}}

// attention is the decode attention of a layer on the axes, in us: as measured
// for these heads, else for other query heads over as many KV heads, else in a
// straight line from the contexts measured before. Notes say where.
func (m *measured) attention() [][]float64 {
	q, kv := m.heads()
	own := decodeTimes(m.engine, q, kv)
	var others []map[[2]int]float64
	for _, heads := range []int{16, 32, 40, 64} {
		if heads != q {
			others = append(others, decodeTimes(m.engine, heads, kv))
		}
	}
	var us [][]float64
	var borrowed, extended []string
	for _, requests := range requestsAxis {
		var line []float64
		for i, context := range contextsAxis {
			value, ok := own[[2]int{requests, context}]
			for j := 0; !ok && j < len(others); j++ {
				value, ok = others[j][[2]int{requests, context}]
				if ok {
					borrowed = append(borrowed, fmt.Sprintf("%d x %d", requests, context))
				}
			}
			if !ok {
				value = stretched(line, i)
				extended = append(extended, fmt.Sprintf("%d x %d", requests, context))
			}
			line = append(line, value)
		}
		us = append(us, line)
	}
	for _, o := range outliers {
		if o.engine == m.engine && o.query == q && o.kv == kv {
			i, k := slices.Index(requestsAxis, o.requests), slices.Index(contextsAxis, o.context)
			m.notes = append(m.notes, fmt.Sprintf(`Replaced: attention at %d requests x %d tokens reads %.1f us in the origin, between %.1f and %.1f us at the contexts beside
it and %.1f and %.1f us at half and twice as many requests: an outlier. The table holds what lies a third of the way
between these two.`, o.requests, o.context, us[i][k], us[i][k-1], us[i][k+1], us[i-1][k], us[i+1][k]))
			us[i][k] = us[i-1][k] + (us[i+1][k]-us[i-1][k])*
				float64(requestsAxis[i]-requestsAxis[i-1])/float64(requestsAxis[i+1]-requestsAxis[i-1])
		}
	}
	if len(borrowed) > 0 {
		m.notes = append(m.notes, "Attention not measured for these heads, so taken from other query heads over as many KV heads (equal within 5 %\nwherever both were measured), at requests x tokens: "+wrapped(borrowed)+".")
	}
	if len(extended) > 0 {
		m.notes = append(m.notes, "Attention not measured at all (with most models that KV does not fit beside the weights), so drawn on in a straight\nline from the contexts before, at requests x tokens: "+wrapped(extended)+".")
	}
	return us
}

// stretched goes on from the points two and one octaves before the last.
func stretched(line []float64, i int) float64 {
	from := max(i-3, 0)
	run := float64(contextsAxis[i-1] - contextsAxis[from])
	slope := (line[i-1] - line[from]) / run
	return line[i-1] + slope*float64(contextsAxis[i]-contextsAxis[i-1])
}

func decodeTimes(engine string, query, kv int) map[[2]int]float64 {
	t := readTable("attention")
	first, contexts := t.axis("c")
	times := map[[2]int]float64{}
	for row := range t.rows {
		if t.text(row, "engine") != engine || t.text(row, "phase") != "decode" ||
			t.count(row, "q_heads") != query || t.count(row, "kv_heads") != kv {
			continue
		}
		for i, context := range contexts {
			if us, ok := t.cell(row, first+i); ok {
				times[[2]int{t.count(row, "batch"), context}] = us
			}
		}
	}
	return times
}

// wrapped joins items in lines that fit the notes.
func wrapped(items []string) string {
	var b strings.Builder
	column := 80
	for i, item := range items {
		if i > 0 {
			b.WriteString(",")
			column++
			if column+len(item) > 115 {
				b.WriteString("\n")
				column = 0
			} else {
				b.WriteString(" ")
				column++
			}
		}
		b.WriteString(item)
		column += len(item)
	}
	return b.String()
}

// text says what is measured, replaced and assumed.
func (m *measured) text() string {
	q, kv := m.heads()
	allReduce := ""
	if m.tp > 1 {
		allReduce = fmt.Sprintf(" + two all-reduces over TP%d in a CUDA graph", m.tp)
	}
	bytes := 2 * (8*m.config.Hidden + 4*(q+kv)*m.config.HeadDim + 3*m.config.Intermediate/m.tp)
	parts := []string{fmt.Sprintf(`Derived: no step was timed as a whole. A decode step is the sum of kernels timed one by one: %d layers x (four GEMMs +
decode attention with %d query and %d KV heads%s) + the output projection.`, m.config.Layers, q, kv, allReduce),
		`Measured by the origin: GEMMs at 1 to 64 and at 256, 1024, 4096 rows, all-reduces by message size, attention at every cell
of the table save those named below. Shapes and row counts between those measured are interpolated linearly, a
vocabulary larger than 65536 is drawn on.`}
	parts = append(parts, m.notes...)
	parts = append(parts, `Uneven but kept: GEMM and output-projection times at 1 to 64 rows vary (other kernels are picked), by up to 0.15 ms a step
of a small model and 5 % of a large one, so a step with more requests is at places a little faster.`,
		fmt.Sprintf(`Assumed: %d us a layer for norms, rotary embedding, activation and residual adds.`, elementwiseUs),
		fmt.Sprintf(`Rows beyond one per request (extends, chunks of prompts) are derived: rows.ms is the part of a step that depends on its
rows alone (GEMMs, all-reduces, elementwise), never falling. Up to 64 rows hide under reading the weights; at 128 rows
the GEMM is assumed to take the larger of its times at 64 rows and half of that at 256. Elementwise beyond %d us a
layer: %d bytes a row and layer at 1.58 TB/s. Attention of extra rows: the origin's prompt of 8192 tokens (SGLang
0.5.10; it has no vLLM prompt kernels), so too low for a short cold prompt, by 2 to 15 %% of its step at 1024-2048
tokens.`, elementwiseUs, bytes))
	return strings.Join(parts, "\n\n")
}
