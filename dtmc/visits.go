package dtmc

// closedClasses returns the sets of models, reachable from home, that a request
// can never leave once it is in them. Sets and their members are in index order.
func closedClasses(routing [][]float64, home int) [][]int {
	k := len(routing)
	reach := make([][]bool, k)
	for i := range reach {
		reach[i] = reachable(routing, i)
	}
	var classes [][]int
	for i := range k {
		if !reach[home][i] {
			continue
		}
		var class []int
		closed := true
		for j := range k {
			if reach[i][j] {
				class = append(class, j)
				closed = closed && reach[j][i]
			}
		}
		if closed && class[0] == i {
			classes = append(classes, class)
		}
	}
	return classes
}

func reachable(routing [][]float64, from int) []bool {
	seen := make([]bool, len(routing))
	seen[from] = true
	for stack := []int{from}; len(stack) > 0; {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for j, p := range routing[i] {
			if p > 0 && !seen[j] {
				seen[j] = true
				stack = append(stack, j)
			}
		}
	}
	return seen
}

// moves says what becomes of a request after a step, by the matrix alone.
type moves struct {
	home    int
	stay    []float64   // by model: it goes on there, with one row
	to      [][]float64 // it comes to a model and feeds what it has not seen there
	written []int       // visible tokens of a step that leaves the model: 0 or 1
	ends    []float64   // its request ends and the next one comes to home, by model
	again   []float64   // it fed a chunk that was not the last and writes nothing, by model
}

// newMoves lets requests of a closed system end: to[home] then includes the next
// ones.
func newMoves(c *Config) *moves {
	m := endlessMoves(c)
	for i, to := range m.to {
		ends := 0.0
		if c.Closed {
			each := 1 / float64(c.OutputTokens)
			ends = m.stay[i] * each
			m.stay[i] -= ends
			for j, p := range to {
				if m.written[i] == 1 {
					ends += p * each
					to[j] -= p * each
				}
			}
			to[m.home] += ends
		}
		m.ends = append(m.ends, ends)
		m.again = append(m.again, 0)
	}
	return m
}

// chunk lets that share of the steps of model i feed a chunk that is not the
// last: the request comes to the same model again.
func (m *moves) chunk(i int, share float64) {
	m.stay[i] *= 1 - share
	m.ends[i] *= 1 - share
	for j := range m.to[i] {
		m.to[i][j] *= 1 - share
	}
	m.to[i][i] += share
	m.again[i] = share
}

func endlessMoves(c *Config) *moves {
	m := &moves{home: c.Home}
	for i, row := range c.Routing {
		to := append([]float64(nil), row...)
		m.stay = append(m.stay, to[i])
		to[i] = 0
		m.to = append(m.to, to)
		m.written = append(m.written, 1)
	}
	if !c.RoutedKept {
		m.written[c.Home] = 0
	}
	return m
}

// matrix is the chance of each next model, whether a request stays or comes.
func (m *moves) matrix() [][]float64 {
	var out [][]float64
	for i, to := range m.to {
		row := append([]float64(nil), to...)
		row[i] += m.stay[i]
		out = append(out, row)
	}
	return out
}

// visits holds what the routing matrix alone says of one request, whatever the
// timing: the share of its steps that it spends in each model, the visible
// tokens of one step, and the rows that one step must feed.
type visits struct {
	*moves
	share      []float64 // of a request's steps, by model; sums to 1
	tokens     []float64 // visible tokens of one step of a request, by model
	rows       []float64 // mean rows of one step of a request, by model; 1 if never visited
	tokenShare []float64 // of visible tokens, by model
	laws       []*rowLaw // rows of the first step of a stay; nil if stays never begin
	prefill    []float64 // rows that the first visits of a request feed, by model
}

// newVisits solves share = share · routing on the one closed class. Over a long
// run a model feeds every visible token exactly once, whoever wrote it, so its
// rows per step are visible tokens over its steps.
func newVisits(c *Config) visits {
	k := len(c.Models)
	v := visits{
		moves:      newMoves(c),
		share:      make([]float64, k),
		tokens:     make([]float64, k),
		rows:       make([]float64, k),
		tokenShare: make([]float64, k),
		laws:       make([]*rowLaw, k),
		prefill:    make([]float64, k),
	}
	if c.Closed {
		v.closedLaws(c)
	}
	matrix := v.matrix()
	class := closedClasses(matrix, c.Home)[0]
	dense := make([]float64, len(class)*len(class))
	for a, i := range class {
		for b, j := range class {
			dense[a*len(class)+b] = matrix[i][j]
		}
	}
	for a, x := range gth(dense, len(class)) {
		v.share[class[a]] = x
	}
	total := 0.0
	for i := range k {
		v.tokens[i] = 1 - v.again[i]
		if i == c.Home && !c.RoutedKept {
			v.tokens[i] *= c.Routing[i][i]
		}
		v.tokenShare[i] = v.share[i] * v.tokens[i]
		total += v.tokenShare[i]
	}
	for i := range k {
		v.rows[i] = 1
		v.tokenShare[i] /= total
		begins := 1 - v.stay[i]
		if v.share[i] == 0 || begins == 0 {
			continue
		}
		if c.Closed {
			mean, _ := v.laws[i].moments()
			v.rows[i] = v.stay[i] + begins*mean
		} else {
			v.rows[i] = total / v.share[i]
			v.laws[i] = gapLaw(v.moves, i, (v.rows[i]-v.stay[i])/begins)
		}
	}
	return v
}
