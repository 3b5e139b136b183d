package steptime

import (
	"fmt"
	"math"
	"strings"
)

// Profile is one profile file: the step times of one model on one GPU type under
// one engine version, and where they come from. Read it with [Load] or
// [LoadFile], or fill it in and call [Profile.Check].
type Profile struct {
	// Name is "gpu/engine-version/model-tpN" for a shipped profile ("-eager" after it
	// without CUDA graphs), else the path.
	Name string `toml:"-"`

	Origin        string `toml:"origin"` // who measured what, and whether the table is derived
	Licence       string `toml:"licence"`
	Engine        string `toml:"engine"`
	EngineVersion string `toml:"engine_version"`
	GPU           string `toml:"gpu"`
	Model         string `toml:"model"`
	TP            int    `toml:"tp"`
	Variant       string `toml:"variant,omitempty"` // VariantEager, or VariantGraphs, which "" stands for
	Notes         string `toml:"notes"`             // what is measured and what is assumed

	Valid Range     `toml:"valid"`
	CPU   CPU       `toml:"cpu"`
	Table Table     `toml:"table"`
	Rows  *RowPrice `toml:"rows,omitempty"` // nil iff the table has an axis of extra rows
}

// Range is where a profile rests on its origin; elsewhere it extrapolates. Both
// ends are included.
type Range struct {
	Requests      [2]int `toml:"requests"`
	Rows          [2]int `toml:"rows"`
	ContextTokens [2]int `toml:"context_tokens"` // of one request, the mean over a step
}

// CPU is the time that an engine version's own code takes in a step, in ms: a
// step takes max(GPU time, LaunchMs) + SerialMs. Floors that add up do not fit
// measured small models. 0 means not modelled.
type CPU struct {
	LaunchMs float64 `toml:"launch_ms"` // runs beside the GPU
	SerialMs float64 `toml:"serial_ms"` // the GPU waits for it
}

// Table is the GPU time of a step on a grid. Between grid points it is linear in
// the context of a request, in the number of requests and in the extra rows.
type Table struct {
	Requests      []int `toml:"requests"`             // from 1, rising
	ExtraRows     []int `toml:"extra_rows,omitempty"` // rows - requests: from 0, rising; empty = one row a request
	ContextTokens []int `toml:"context_tokens"`       // of each request, rising
	Ms            Cells `toml:"ms"`
}

// RowPrice prices rows beyond one per request where the table knows none: they
// add Ms at all rows less Ms at as many rows as requests, so they are free while
// they hide under the reading of the weights, and their attention. Contexts are
// taken to include the rows fed: each extra row attends to the mean context less
// half of the extra rows, yet at least to half of the mean context.
type RowPrice struct {
	Rows                   []int     `toml:"rows"` // from 1, rising
	Ms                     []float64 `toml:"ms"`   // never falling
	AttentionNsPerRowToken float64   `toml:"attention_ns_per_row_token"`
}

// A problem is what is wrong with one key of a profile.
type problem struct {
	key  string // dotted, without indices
	text string // goes on after the key
}

func (p *problem) Error() string { return p.key + p.text }

// Limits on a profile keep the compiled table small and every sum in range.
const (
	axisMax     = 64
	countMax    = 1 << 24 // requests and rows
	contextMax  = 1 << 30
	nsTokenMax  = 1 << 30 // a slope above a second per token is a mistake of units
	rowTokenMax = 1e6
)

// Check says what is wrong with the profile: nil, or an error that names a key.
func (p *Profile) Check() error {
	if found := p.check(); found != nil {
		return fmt.Errorf("%s: %w", p.Name, found)
	}
	return nil
}

func (p *Profile) check() *problem {
	for _, field := range []struct{ key, text string }{
		{"origin", p.Origin}, {"licence", p.Licence}, {"engine", p.Engine},
		{"engine_version", p.EngineVersion}, {"gpu", p.GPU}, {"model", p.Model}, {"notes", p.Notes},
	} {
		if strings.TrimSpace(field.text) == "" {
			return &problem{field.key, " is empty; say it, numbers without a source cannot be trusted"}
		}
	}
	if p.TP < 1 || p.TP > 1024 {
		return &problem{"tp", fmt.Sprintf(" is %d; give the number of GPUs, from 1 to 1024", p.TP)}
	}
	if p.Variant != "" && p.Variant != VariantGraphs && p.Variant != VariantEager {
		return &problem{"variant", fmt.Sprintf(" is %q; use %q or %q", p.Variant, VariantGraphs, VariantEager)}
	}
	for _, field := range []struct {
		key string
		ms  float64
	}{{"cpu.launch_ms", p.CPU.LaunchMs}, {"cpu.serial_ms", p.CPU.SerialMs}} {
		if _, err := unitsFromMs(field.ms); err != nil {
			return &problem{field.key, " " + err.Error()}
		}
	}
	if found := p.Valid.check(); found != nil {
		return found
	}
	if found := p.Table.check(); found != nil {
		return found
	}
	switch {
	case p.Rows == nil && len(p.Table.ExtraRows) == 0:
		return &problem{"rows", " is missing; add it or an axis table.extra_rows: extends and prompts need a price"}
	case p.Rows != nil && len(p.Table.ExtraRows) > 0:
		return &problem{"rows", " prices extra rows, but so does table.extra_rows; remove one of them"}
	case p.Rows != nil:
		return p.Rows.check()
	}
	return nil
}

func (r *Range) check() *problem {
	for _, bounds := range []struct {
		key         string
		ends        [2]int
		least, most int
	}{
		{"valid.requests", r.Requests, 1, countMax},
		{"valid.rows", r.Rows, 1, countMax},
		{"valid.context_tokens", r.ContextTokens, 0, contextMax},
	} {
		low, high := bounds.ends[0], bounds.ends[1]
		if low < bounds.least || high < low || high > bounds.most {
			return &problem{bounds.key, fmt.Sprintf(" is [%d, %d]; give [least, most] from %d to %d",
				low, high, bounds.least, bounds.most)}
		}
	}
	return nil
}

// checkAxis wants at least one value, rising from least. With first set, the
// first value must be just that.
func checkAxis(key string, axis []int, least, most int, first bool) *problem {
	if len(axis) == 0 || len(axis) > axisMax {
		return &problem{key, fmt.Sprintf(" has %d values; give 1 to %d", len(axis), axisMax)}
	}
	for i, value := range axis {
		switch {
		case i > 0 && value <= axis[i-1]:
			return &problem{key, fmt.Sprintf("[%d] is %d after %d; the values must rise", i, value, axis[i-1])}
		case i == 0 && first && value != least:
			return &problem{key, fmt.Sprintf("[0] is %d; the first value must be %d", value, least)}
		case value < least || value > most:
			return &problem{key, fmt.Sprintf("[%d] is %d; give values from %d to %d", i, value, least, most)}
		}
	}
	return nil
}

func (t *Table) check() *problem {
	if found := checkAxis("table.requests", t.Requests, 1, countMax, true); found != nil {
		return found
	}
	if found := checkAxis("table.context_tokens", t.ContextTokens, 0, contextMax, false); found != nil {
		return found
	}
	planes, axes := 1, "requests x context_tokens"
	if len(t.ExtraRows) > 0 {
		if found := checkAxis("table.extra_rows", t.ExtraRows, 0, countMax, true); found != nil {
			return found
		}
		planes, axes = len(t.ExtraRows), "requests x extra_rows x context_tokens"
	}
	wrong := func(at string, got, want int) *problem {
		return &problem{"table.ms", fmt.Sprintf("%s holds %d values, the axis %d; ms is %s", at, got, want, axes)}
	}
	if t.Ms.flat == (len(t.ExtraRows) > 0) {
		return &problem{"table.ms", " has the wrong depth; it is " + axes}
	}
	if len(t.Ms.Values) != len(t.Requests) {
		return wrong("", len(t.Ms.Values), len(t.Requests))
	}
	for i, rows := range t.Ms.Values {
		if len(rows) != planes {
			return wrong(fmt.Sprintf("[%d]", i), len(rows), planes)
		}
		for j, line := range rows {
			if len(line) != len(t.ContextTokens) {
				return wrong(t.Ms.index(i, j), len(line), len(t.ContextTokens))
			}
			if found := t.checkLine(i, j); found != nil {
				return found
			}
		}
	}
	return nil
}

// checkLine checks the times of one number of requests and of extra rows.
func (t *Table) checkLine(i, j int) *problem {
	line := t.Ms.Values[i][j]
	for k, ms := range line {
		at := fmt.Sprintf("%s[%d]", t.Ms.index(i, j), k)
		units, err := unitsFromMs(ms)
		if err != nil {
			return &problem{"table.ms", at + " " + err.Error()}
		}
		if units < 1<<fractionBits {
			return &problem{"table.ms", fmt.Sprintf("%s is %v; a step takes at least 1 ns (0.000001 ms)", at, ms)}
		}
		if k == 0 {
			continue
		}
		run := float64(t.ContextTokens[k]-t.ContextTokens[k-1]) * float64(t.Requests[i])
		if math.Abs(ms-line[k-1])*1e6/run > nsTokenMax {
			return &problem{"table.ms", at + " changes by more than a second per token; are the units right?"}
		}
	}
	return nil
}

func (r *RowPrice) check() *problem {
	if found := checkAxis("rows.rows", r.Rows, 1, countMax, true); found != nil {
		return found
	}
	if len(r.Ms) != len(r.Rows) {
		return &problem{"rows.ms", fmt.Sprintf(" holds %d values, rows.rows %d", len(r.Ms), len(r.Rows))}
	}
	for i, ms := range r.Ms {
		if _, err := unitsFromMs(ms); err != nil {
			return &problem{"rows.ms", fmt.Sprintf("[%d] %s", i, err)}
		}
		if i > 0 && ms < r.Ms[i-1] {
			return &problem{"rows.ms", fmt.Sprintf("[%d] is %v after %v; more rows cannot take less time", i, ms, r.Ms[i-1])}
		}
	}
	// Not >= and <= alone: a NaN must fail too.
	if ns := r.AttentionNsPerRowToken; !(ns >= 0 && ns <= rowTokenMax) {
		return &problem{"rows.attention_ns_per_row_token", fmt.Sprintf(" is %v; give 0 to %v ns", ns, rowTokenMax)}
	}
	return nil
}

// Range says where the profile rests on its origin.
func (p *Profile) Range() Range { return p.Valid }

// InRange reports whether a step of that many requests and rows, with contexts
// that sum to contextTokens, is priced from measured points rather than beyond.
func (p *Profile) InRange(requests, rows, contextTokens int) bool {
	return p.Valid.holds(requests, rows, contextTokens)
}

func (r *Range) holds(requests, rows, contextTokens int) bool {
	in := func(value int, ends [2]int) bool { return ends[0] <= value && value <= ends[1] }
	return in(requests, r.Requests) && in(rows, r.Rows) &&
		contextTokens >= r.ContextTokens[0]*requests &&
		contextTokens <= r.ContextTokens[1]*requests
}

// A Ranged step time knows where it rests on its origin: a run counts the steps
// outside and says so once. What [Profile.Compile] returns is one; it costs no
// allocation and about a nanosecond.
type Ranged interface {
	StepTime
	InRange(requests, rows, contextTokens int) bool
}
