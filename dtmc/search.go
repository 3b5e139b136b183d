package dtmc

import (
	"cmp"
	"fmt"
	"slices"
)

// search tries threshold vectors. Only vectors that Clamp leaves alone are
// tried: every other one is the same system as the vector it is clamped to.
type search struct {
	p      *predictor
	opt    *TuneOptions
	free   []int // models whose threshold varies
	limit  []int // largest threshold of each model
	sum    int   // largest sum of thresholds
	points []Point
	tried  map[string]int // packed vector to its place in points
	method string
}

func newSearch(p *predictor, opt *TuneOptions) *search {
	cfg := p.cfg
	s := &search{p: p, opt: opt, sum: cfg.Users + len(cfg.Models) - 1, tried: map[string]int{}}
	for m := range cfg.Models {
		s.limit = append(s.limit, cfg.maxBatch(m))
		switch {
		case opt.Search == SearchOne && m != opt.Model:
		case opt.Search == SearchPeers && m == cfg.Home && len(cfg.Models) > 1:
		default:
			s.free = append(s.free, m)
		}
	}
	return s
}

// run solves B = 1 first, then every vector if there are few enough.
func (s *search) run() error {
	ones := make([]int, len(s.limit))
	for m := range ones {
		ones[m] = 1
	}
	if _, err := s.try(ones); err != nil {
		return err
	}
	from := ones
	if s.opt.Search == SearchOne {
		from = s.p.cfg.inForce(nil)
		from[s.opt.Model] = 1
	}
	if s.count(from, 0, fullVectors) <= fullVectors {
		s.method = "full"
		return s.all(slices.Clone(from), 0)
	}
	s.method = "coordinate"
	return s.climbTwice(from)
}

// climbTwice climbs with the slowest model first and again with the fastest
// first: throughput has several local peaks, and the first line tried decides
// which of them is climbed. Slowest first is the one that finds the highest in
// every system of the tests.
func (s *search) climbTwice(from []int) error {
	slow := slices.DeleteFunc(slowest(&s.p.chain.quanta), func(m int) bool { return !slices.Contains(s.free, m) })
	if err := s.climb(from, slow); err != nil {
		return err
	}
	slices.Reverse(slow)
	return s.climb(from, slow)
}

// count counts the vectors that all would try, up to one more than enough.
func (s *search) count(b []int, at, enough int) int {
	if at == len(s.free) {
		return 1
	}
	n := 0
	b = slices.Clone(b)
	for m := s.free[at]; s.fits(b) && n <= enough; b[m]++ {
		n += s.count(b, at+1, enough)
	}
	return n
}

func (s *search) all(b []int, at int) error {
	if at == len(s.free) {
		_, err := s.try(b)
		return err
	}
	b = slices.Clone(b)
	for m := s.free[at]; s.fits(b); b[m]++ {
		if err := s.all(b, at+1); err != nil {
			return err
		}
	}
	return nil
}

// climb tries, for one model of the order after another, every threshold with
// the others held at the best so far, until a whole round changes nothing.
func (s *search) climb(from, order []int) error {
	best, top, err := slices.Clone(from), 0.0, error(nil)
	if top, err = s.try(best); err != nil {
		return err
	}
	for improved := true; improved; {
		improved = false
		for _, m := range order {
			b := slices.Clone(best)
			for b[m] = 1; s.fits(b); b[m]++ {
				x, err := s.try(b)
				if err != nil {
					return err
				}
				if x > top*(1+tie) {
					best, top, improved = slices.Clone(b), x, true
				}
			}
		}
	}
	return nil
}

func (s *search) fits(b []int) bool {
	sum := 0
	for m, x := range b {
		if x > s.limit[m] {
			return false
		}
		sum += x
	}
	return sum <= s.sum
}

// try solves one vector, once, and returns its throughput.
func (s *search) try(b []int) (float64, error) {
	packed := make([]byte, 0, 2*maxModels)
	for _, x := range b {
		packed = append(packed, byte(x), byte(x>>8))
	}
	if at, ok := s.tried[string(packed)]; ok {
		return s.points[at].ThroughputTokPerS, nil
	}
	r, err := s.p.predict(b)
	if err != nil {
		return 0, fmt.Errorf("thresholds %v: %w", b, err)
	}
	s.tried[string(packed)] = len(s.points)
	s.points = append(s.points, Point{
		Users:             s.p.cfg.Users,
		B:                 r.BInForce,
		ThroughputTokPerS: r.ThroughputTokPerS,
		PerUserTokPerS:    r.PerUserTokPerS,
		MeanTPOTMs:        r.MeanTPOTMs,
		KeepsLimits: r.PerUserTokPerS >= s.opt.MinPerUserTokPerS &&
			(s.opt.MaxMeanTPOTMs == 0 || r.MeanTPOTMs <= s.opt.MaxMeanTPOTMs),
	})
	return r.ThroughputTokPerS, nil
}

func sortByThreshold(line []Point, model int) {
	slices.SortFunc(line, func(a, b Point) int { return cmp.Compare(a.B[model], b.B[model]) })
}
