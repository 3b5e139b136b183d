package steptime

import "math/bits"

const (
	// slopeBits is how much finer a slope is than a time: at 2^-32 ns per token,
	// a stretch of 2^30 tokens is off by at most an eighth of a nanosecond.
	slopeBits = 12
	// attentionBits is the fraction of attention in ns per row and token.
	attentionBits = 40
	// keptLeast and keptMost bound the numbers of requests and rows whose times are kept;
	// beyond them they are worked out at each call, to the same values.
	keptLeast = 256
	keptMost  = 4096
)

// compiled is a profile ready for one call a step: integers only, no allocation.
type compiled struct {
	extraRows   []int64 // axis of planes; {0} if the table has none
	planes      []plane // one for each of extraRows
	rows        *rowPrice
	launchUnits int64
	serialUnits int64
	valid       Range
}

// InRange implements [Ranged].
func (c *compiled) InRange(requests, rows, contextTokens int) bool {
	return c.valid.holds(requests, rows, contextTokens)
}

// plane is the table at one number of extra rows.
type plane struct {
	requests []int64   // axis
	contexts []int64   // axis, of one request
	units    [][]int64 // requests x contexts
	kept     [][]node  // by requests; [0] is not used
}

// node starts a stretch of summed context in which time is linear.
type node struct {
	start int64 // tokens, over all requests
	units int64 // at start
	slope int64 // 2^-32 ns per token; the last one holds for ever and is not negative
}

// rowPrice is a compiled [RowPrice].
type rowPrice struct {
	rows      []int64
	units     []int64
	kept      []int64 // by rows; [0] is not used
	attention int64   // 2^-40 ns per row and token
}

// Compile turns the profile into integers. The result is safe for concurrent
// use and a [Ranged]. It panics on a profile that fails [Profile.Check].
//
// Time is linear in context and in requests between grid points; below the first
// context it stays flat; beyond the last context, requests or rows it follows the
// last slope, or stays flat if that falls. More than 73 minutes count as 73.
func (p *Profile) Compile() StepTime {
	if err := p.Check(); err != nil {
		panic("steptime: compile: " + err.Error())
	}
	c := &compiled{
		extraRows:   []int64{0},
		launchUnits: mustUnits(p.CPU.LaunchMs),
		serialUnits: mustUnits(p.CPU.SerialMs),
		valid:       p.Valid,
	}
	if len(p.Table.ExtraRows) > 0 {
		c.extraRows = int64s(p.Table.ExtraRows)
	}
	for i := range c.extraRows {
		c.planes = append(c.planes, compilePlane(&p.Table, i))
	}
	if p.Rows != nil {
		c.rows = &rowPrice{
			rows:      int64s(p.Rows.Rows),
			attention: fixed(p.Rows.AttentionNsPerRowToken, 1<<attentionBits),
		}
		for _, ms := range p.Rows.Ms {
			c.rows.units = append(c.rows.units, mustUnits(ms))
		}
		c.rows.kept = make([]int64, min(c.rows.rows[len(c.rows.rows)-1], keptMost)+1)
		for rows := range c.rows.kept[1:] {
			c.rows.kept[rows+1] = c.rows.between(int64(rows + 1))
		}
	}
	return c
}

func compilePlane(t *Table, extraRow int) plane {
	p := plane{requests: int64s(t.Requests), contexts: int64s(t.ContextTokens)}
	for _, cells := range t.Ms.Values {
		var line []int64
		for _, ms := range cells[extraRow] {
			line = append(line, mustUnits(ms))
		}
		p.units = append(p.units, line)
	}
	kept := keptLeast
	if extraRow == 0 { // the one that every step reads
		kept = min(max(t.Requests[len(t.Requests)-1], keptLeast), keptMost)
	}
	p.kept = make([][]node, kept+1)
	for requests := 1; requests <= kept; requests++ {
		p.kept[requests] = p.nodes(int64(requests), make([]node, 0, len(p.contexts)))
	}
	return p
}

// nodes appends to dst the stretches for one number of requests.
func (p *plane) nodes(requests int64, dst []node) []node {
	for k, context := range p.contexts {
		dst = append(dst, node{
			start: timesSaturating(requests, context),
			units: p.column(k, requests),
		})
	}
	last := len(dst) - 1
	for k := range dst[:last] {
		from, to := &dst[k], dst[k+1]
		run := to.start - from.start
		if to.units >= from.units {
			from.slope = scale(to.units-from.units, 1<<slopeBits, run)
		} else {
			from.slope = -scale(from.units-to.units, 1<<slopeBits, run)
		}
	}
	if last > 0 {
		dst[last].slope = max(dst[last-1].slope, 0)
	}
	return dst
}

// column is the time at context k for any number of requests.
func (p *plane) column(k int, requests int64) int64 {
	last := len(p.requests) - 1
	for i, value := range p.requests {
		switch {
		case requests == value || last == 0:
			return p.units[i][k]
		case requests < value:
			return between(requests, p.requests[i-1], value, p.units[i-1][k], p.units[i][k])
		}
	}
	return beyond(requests, p.requests[last-1], p.requests[last], p.units[last-1][k], p.units[last][k])
}

// at is the time of one row per request plus the plane's extra rows.
func (p *plane) at(requests, contextTokens int) int64 {
	if requests < len(p.kept) {
		return along(p.kept[requests], int64(contextTokens))
	}
	var room [axisMax]node
	return along(p.nodes(int64(requests), room[:0]), int64(contextTokens))
}

// along is the time at a summed context.
func along(nodes []node, contextTokens int64) int64 {
	at := &nodes[0]
	for i := 1; i < len(nodes) && contextTokens >= nodes[i].start; i++ {
		at = &nodes[i]
	}
	run := contextTokens - at.start
	switch {
	case run <= 0:
		return at.units
	case at.slope < 0:
		return at.units - rise(-at.slope, run)
	}
	return addSaturating(at.units, rise(at.slope, run))
}

// rise is what a slope adds over a run of tokens, or unitsMax if that is less.
func rise(slope, run int64) int64 {
	high, low := bits.Mul64(uint64(slope), uint64(run))
	if high > unitsMax>>(64-slopeBits) {
		return unitsMax
	}
	return int64(high<<(64-slopeBits) | low>>slopeBits)
}

// Ns implements [StepTime]. It panics if requests is below 1, rows below requests
// or contextTokens below 0.
func (c *compiled) Ns(requests, rows, contextTokens int) int64 {
	checkStep(requests, rows, contextTokens)
	gpu := c.planes[0].at(requests, contextTokens)
	if rows > requests {
		gpu = c.withExtraRows(gpu, requests, rows, contextTokens)
	}
	return nsFromUnits(addSaturating(max(gpu, c.launchUnits), c.serialUnits))
}

// withExtraRows is the GPU time of a step that takes gpu with a row per request.
func (c *compiled) withExtraRows(gpu int64, requests, rows, contextTokens int) int64 {
	if c.rows != nil {
		return addSaturating(gpu, c.rows.extra(int64(requests), int64(rows), int64(contextTokens)))
	}
	extra, last := int64(rows-requests), len(c.extraRows)-1
	if last == 0 {
		return gpu
	}
	i := 1
	for i < last && extra > c.extraRows[i] {
		i++
	}
	x0, x1 := c.extraRows[i-1], c.extraRows[i]
	y0, y1 := c.planes[i-1].at(requests, contextTokens), c.planes[i].at(requests, contextTokens)
	if extra > x1 {
		return beyond(extra, x0, x1, y0, y1)
	}
	return between(extra, x0, x1, y0, y1)
}

// extra is what rows beyond one per request add to a step.
func (r *rowPrice) extra(requests, rows, contextTokens int64) int64 {
	more := rows - requests
	// Each extra row attends to c - min(more, c) / 2 tokens, c being the mean
	// context. Over the common denominator 2 * requests nothing is rounded.
	attended := timesSaturating(2, contextTokens) - min(timesSaturating(more, requests), contextTokens)
	attention := scale(r.attention, timesSaturating(more, attended),
		timesSaturating(requests, 2<<(attentionBits-fractionBits)))
	return addSaturating(r.at(rows)-r.at(requests), attention)
}

// at is the time of what depends on the number of rows alone.
func (r *rowPrice) at(rows int64) int64 {
	if rows < int64(len(r.kept)) {
		return r.kept[rows]
	}
	return r.between(rows)
}

func (r *rowPrice) between(rows int64) int64 {
	last := len(r.rows) - 1
	for i, value := range r.rows {
		switch {
		case rows == value || last == 0:
			return r.units[i]
		case rows < value:
			return between(rows, r.rows[i-1], value, r.units[i-1], r.units[i])
		}
	}
	return beyond(rows, r.rows[last-1], r.rows[last], r.units[last-1], r.units[last])
}

func mustUnits(ms float64) int64 {
	units, err := unitsFromMs(ms)
	if err != nil {
		panic("steptime: compile: a checked time " + err.Error())
	}
	return units
}

func int64s(values []int) []int64 {
	out := make([]int64, len(values))
	for i, value := range values {
		out[i] = int64(value)
	}
	return out
}
