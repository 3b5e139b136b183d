package dtmc

// A life follows one request of a closed system from its prompt to its end,
// token by token, by the matrix alone: it ends with its last visible token.
type life struct {
	leave [][]float64 // expected departures, by model and tokens written after them
	first [][]float64 // chance of the first arrival, by model and tokens written
}

func newLife(c *Config) *life {
	m := endlessMoves(c)
	k, output := len(m.stay), c.OutputTokens
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
	endless, l := endlessMoves(c), newLife(c)
	for i := range v.laws {
		chunk := c.Models[i].ChunkTokens
		law := &rowLaw{p: make([]float64, c.PromptTokens+c.OutputTokens+1)}
		arrivals, further := 0.0, 0.0
		add := func(rows int, weight float64) {
			arrivals += weight
			for chunk > 0 && rows > chunk {
				law.p[chunk] += weight
				further += weight
				rows -= chunk
			}
			law.p[rows] += weight
		}
		if i == c.Home {
			add(c.PromptTokens, 1)
			v.prefill[i] = float64(c.PromptTokens)
		}
		for written, p := range l.first[i] {
			if p > 0 {
				add(c.PromptTokens+written, p)
				v.prefill[i] += p * float64(c.PromptTokens+written)
			}
		}
		if endless.stay[i] < 1 {
			l.laterVisits(c, endless, i, add)
		}
		if arrivals == 0 {
			continue
		}
		for rows := range law.p {
			law.p[rows] /= arrivals + further
		}
		v.laws[i] = law
		if further > 0 {
			perArrival := further / arrivals
			v.chunk(i, perArrival/(perArrival+1/(1-v.stay[i])))
		}
	}
}

// laterVisits adds the arrivals at a model that a request has left before, with
// what is written in between.
func (l *life) laterVisits(c *Config, endless *moves, i int, add func(rows int, weight float64)) {
	left := 0.0
	by := make([]float64, c.OutputTokens+1) // departures up to so many tokens
	for written, p := range l.leave[i] {
		left += p
		by[written] = left
	}
	for rows, p := range gapLaw(endless, i, 0).p {
		if last := c.OutputTokens - 1 - (rows - endless.written[i]); last >= 0 && p > 0 && by[last] > 0 {
			add(rows, p*by[last])
		}
	}
}
