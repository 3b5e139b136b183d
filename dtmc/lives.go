package dtmc

// A life follows one request of a closed system from its prompt to its end,
// token by token, by the matrix alone: it ends with its last visible token.
type life struct {
	leave [][]float64 // expected departures, by model and tokens written after them
	first [][]float64 // chance of the first arrival, by model and tokens written
}

func newLife(m *moves, output int) *life {
	k := len(m.stay)
	l := &life{}
	for range k {
		l.leave = append(l.leave, make([]float64, output+1))
		l.first = append(l.first, make([]float64, output+1))
	}
	walk(m, output, func(from, _, written int, p float64) float64 {
		l.leave[from][written] += p
		return p
	})
	for i := range k {
		if i == m.home {
			continue
		}
		walk(m, output, func(_, to, written int, p float64) float64 {
			if to != i {
				return p
			}
			l.first[i][written] += p
			return 0 // from here on it is no longer the first
		})
	}
	return l
}

// walk moves the chance of being at each model along the tokens of a request
// and tells of every move from model to model; what moved returns goes on.
func walk(m *moves, output int, moved func(from, to, written int, p float64) float64) {
	k := len(m.stay)
	here, next := make([]float64, k), make([]float64, k)
	here[m.home] = 1
	for written := range output {
		if m.written[m.home] == 0 { // leaving home writes nothing
			for to, p := range m.to[m.home] {
				if p > 0 {
					here[to] += moved(m.home, to, written, here[m.home]*p)
				}
			}
		}
		clear(next)
		for from, x := range here {
			if x == 0 {
				continue
			}
			next[from] += x * m.stay[from]
			if m.written[from] == 0 || written+1 == output {
				continue
			}
			for to, p := range m.to[from] {
				if p > 0 {
					next[to] += moved(from, to, written+1, x*p)
				}
			}
		}
		here, next = next, here
	}
}

// closedLaws finds the rows of first steps where requests end: those of first
// visits, which read the prompt, and those of later ones, of which only such
// count as fit into a life. More rows than a chunk take several steps.
func (v *visits) closedLaws(c *Config) {
	endless := endlessMoves(c)
	outputs := c.Outputs
	if len(outputs) == 0 {
		outputs = []int{c.OutputTokens}
	}
	var lives []*life
	for _, output := range outputs {
		lives = append(lives, newLife(endless, output))
	}
	for i := range v.laws {
		n := arrivals{chunk: c.Models[i].ChunkTokens, context: c.contextTokens()}
		if i == c.Home {
			n.read(c.PromptTokens, float64(len(lives)))
		}
		for _, l := range lives {
			for written, p := range l.first[i] {
				n.read(c.PromptTokens+written, p)
			}
		}
		v.prefill[i] = n.prefill / float64(len(lives))
		if endless.stay[i] < 1 {
			gap := gapLaw(endless, i, 0)
			for _, l := range lives {
				l.laterVisits(i, gap, endless.written[i], &n)
			}
		}
		if n.weight == 0 {
			continue
		}
		v.laws[i] = n.law()
		if n.further > 0 {
			perArrival := n.further / n.weight
			v.chunk(i, perArrival/(perArrival+1/(1-v.stay[i])))
		}
	}
}

// laterVisits adds the arrivals at a model that a request has left before, with
// what is written in between; own is what the step that leaves it writes.
func (l *life) laterVisits(i int, gap *rowLaw, own int, n *arrivals) {
	output := len(l.leave[i]) - 1
	left := 0.0
	by := make([]float64, output+1) // departures up to so many tokens
	for written, p := range l.leave[i] {
		left += p
		by[written] = left
	}
	for rows, p := range gap.p {
		if last := output - 1 - (rows - own); last >= 0 {
			n.feed(rows, p*by[last])
		}
	}
}

// arrivals gathers what requests feed when they come to a model, by weight.
type arrivals struct {
	chunk, context int // of the model; mean of a request
	p              []float64
	weight         float64 // of all arrivals
	further        float64 // of the chunks behind their first
	prefill        float64 // rows that read prompts
	rows, missing  float64 // rows in all, context that steps lack
}

// read adds a first visit, which feeds all there is.
func (n *arrivals) read(rows int, weight float64) {
	if weight == 0 {
		return
	}
	n.prefill += weight * float64(rows)
	for fed := 0; fed < rows; {
		next := rows
		if n.chunk > 0 {
			next = min(rows, fed+n.chunk)
		}
		n.missing += weight * float64(n.context-next)
		fed = next
	}
	n.feed(rows, weight)
}

func (n *arrivals) feed(rows int, weight float64) {
	if weight == 0 {
		return
	}
	n.weight += weight
	n.rows += weight * float64(rows)
	for n.chunk > 0 && rows > n.chunk {
		n.add(n.chunk, weight)
		n.further += weight
		rows -= n.chunk
	}
	n.add(rows, weight)
}

func (n *arrivals) add(rows int, weight float64) {
	for len(n.p) <= rows {
		n.p = append(n.p, 0)
	}
	n.p[rows] += weight
}

func (n *arrivals) law() *rowLaw {
	for rows := range n.p {
		n.p[rows] /= n.weight + n.further
	}
	return &rowLaw{p: n.p, missing: max(0, n.missing/n.rows)}
}
