package algorithms

import "slices"

// MatrixSource is an algorithm whose moves have a mean routing matrix: what
// the Markov chain takes in. Entry [i][j] is the probability that a decision
// at model i sends the request to j; [i][i] that it stays.
type MatrixSource interface {
	RoutingMatrix() [][]float64
}

// Matrix stands in for an algorithm whose routing probabilities are known: at
// model i each decision leaves for j with probability rows[i][j]. The whole
// stay is drawn at its start, a geometric number of decisions and then a
// destination, from the request's seed, the model and the position where the
// stay starts; so every driver sees the same hand-offs.
type Matrix struct {
	AcceptAll
	rows       [][]float64
	routedKept bool
}

// NewMatrix returns the source for square rows that hold probabilities and
// each sum to 1 within 1e-9; other rows are a FieldError. A hand-off that
// leaves home keeps the token just sampled if routedKept; all others keep it
// always, so that a visit writes at least one token.
func NewMatrix(rows [][]float64, routedKept bool) (*Matrix, error) {
	if len(rows) == 0 {
		return nil, fieldErrorf("matrix", "is missing; give one row per model, like [[0.9, 0.1], [1.0, 0.0]]")
	}
	m := &Matrix{routedKept: routedKept}
	for i, row := range rows {
		if len(row) != len(rows) {
			return nil, fieldErrorf("matrix", "row %d has %d entries for %d models; give one per model", i+1, len(row), len(rows))
		}
		if err := checkShares("matrix", row, i+1); err != nil {
			return nil, err
		}
		m.rows = append(m.rows, slices.Clone(row))
		if onlySelf(row, i) {
			m.rows[i][i] = 1 // A sum short of 1 by rounding must not leave to nowhere.
		}
	}
	return m, nil
}

func (*Matrix) Name() string   { return "matrix" }
func (*Matrix) Needs(int) Need { return 0 }

func (m *Matrix) Route(v *View) Dest { return routeAsStay(m, v) }

// Send drops the token only where it leaves home, and there unless the source
// was made to keep it.
func (m *Matrix) Send(d Departure, _ *PeerReq) bool { return m.routedKept || d.From != d.Home }

func (m *Matrix) Stay(v *View) (kept int, dest Dest) {
	row := m.rows[v.Model]
	kept = geometric(Draw(v.Seed, v.StayStart, PurposeGap.For(v.Model)), row[v.Model])
	if kept == Forever {
		return Forever, Stay
	}
	return kept, To(pick(Draw(v.Seed, v.StayStart, PurposeDest.For(v.Model)), row, v.Model))
}

// RoutingMatrix returns a copy of the rows.
func (m *Matrix) RoutingMatrix() [][]float64 {
	rows := make([][]float64, len(m.rows))
	for i, row := range m.rows {
		rows[i] = slices.Clone(row)
	}
	return rows
}

// onlySelf reports whether row gives all its weight to entry i.
func onlySelf(row []float64, i int) bool {
	for j, x := range row {
		if j != i && x > 0 {
			return false
		}
	}
	return true
}

// routeAsStay is Route for a source: it asks how this stay ends and leaves at
// that decision.
func routeAsStay(s StaySource, v *View) Dest {
	kept, dest := s.Stay(v)
	if v.Position-v.StayStart < kept {
		return Stay
	}
	return dest
}
