package algorithms

import "fmt"

// Check plays a on made-up requests that enter at home, one after the other, and
// returns the first breach of what Algorithm and StaySource promise: where, and
// what a did. Requests have prompts of promptTokens tokens; models is how many
// models the system has. An algorithm that passes may still be wrong elsewhere,
// but one that fails would show wrong figures, or stop a run half-way.
func Check(a Algorithm, models, home, promptTokens int) error {
	for seed := range uint64(checkedRequests) {
		c := check{a: a, models: models, View: View{Seed: seed, Home: home, Model: home}, prompt: promptTokens}
		c.stays, _ = a.(StaySource)
		if err := c.play(); err != nil {
			return fmt.Errorf("algorithm %s, at model %d, position %d of a request with seed %d: %w",
				a.Name(), c.Model, c.Position, seed, err)
		}
	}
	return nil
}

const (
	checkedRequests = 32
	checkedTokens   = 64 // of a request: several stays of most algorithms
	purposeChecked  = Purpose(0xc4ec)
)

// check is one request on its way.
type check struct {
	View
	a        Algorithm
	models   int
	prompt   int
	stays    StaySource // nil if a is none
	kept     int        // decisions of this stay that keep the request, by Stay
	dest     Dest       // where it goes then
	departed int        // tokens that home knows
}

func (c *check) play() error {
	c.Position, c.departed = c.prompt, c.prompt
	if err := c.arrive(); err != nil {
		return err
	}
	for forwards := 0; c.Position < c.prompt+checkedTokens; forwards++ {
		if forwards > checkedTokens*(c.models+1) {
			return fmt.Errorf("%d decisions have written %d tokens only: some visits have to keep a token", forwards, c.Position-c.prompt)
		}
		dest, err := c.decide()
		if err != nil {
			return err
		}
		if dest == Stay {
			c.Position++
		} else if err := c.leave(dest.Model()); err != nil {
			return err
		}
	}
	return nil
}

// arrive begins a stay.
func (c *check) arrive() error {
	c.StayStart = c.Position
	if c.stays == nil {
		return nil
	}
	v := c.View
	c.kept, c.dest = c.stays.Stay(&v)
	switch {
	case c.kept < 0:
		return fmt.Errorf("Stay keeps %d decisions; it is at least 0, or Forever", c.kept)
	case c.dest == Stay && c.kept < checkedTokens:
		return fmt.Errorf("Stay leaves for nowhere after %d decisions; it has to name a model, or keep Forever", c.kept)
	case c.dest != Stay:
		return c.reaches("Stay", c.dest)
	}
	return nil
}

// decide asks Route twice, as the simulator and a log's replay may.
func (c *check) decide() (Dest, error) {
	c.Signals = madeUp(c.a.Needs(c.Model), c.Seed, c.Position)
	c.Token = Token(Draw(c.Seed, c.Position, purposeChecked) * 1000)
	v, again := c.View, c.View
	dest, second := c.a.Route(&v), c.a.Route(&again)
	if dest != second || v.Token != again.Token {
		return 0, fmt.Errorf("Route answers %d with token %d, and asked again %d with token %d; it may depend on the View only",
			dest, v.Token, second, again.Token)
	}
	if dest != Stay {
		if err := c.reaches("Route", dest); err != nil {
			return 0, err
		}
	}
	if c.stays != nil {
		want := c.dest
		if c.Position-c.StayStart < c.kept {
			want = Stay
		}
		if dest != want {
			return 0, fmt.Errorf("Route answers %d, but Stay said at position %d that %d decisions stay and the next answers %d",
				dest, c.StayStart, c.kept, c.dest)
		}
	}
	c.Token, c.Extra = v.Token, v.Extra
	return dest, nil
}

func (c *check) reaches(function string, d Dest) error {
	switch {
	case d < 0 || int(d) > c.models:
		return fmt.Errorf("%s answers %d, which is none of the %d models; To(model) takes 0 to %d", function, d, c.models, c.models-1)
	case d.Model() == c.Model:
		return fmt.Errorf("%s sends the request to the model where it is; the answer for that is Stay", function)
	}
	return nil
}

// leave hands the request over, by way of Receive if it comes home.
func (c *check) leave(to int) error {
	req := PeerReq{ID: c.Request, Home: c.Home, From: c.Model, Seed: c.Seed, Prompt: c.prompt, Hops: c.Hops + 1, Extra: c.Extra}
	d := Departure{From: c.Model, To: to, Home: c.Home, Position: c.Position, Token: c.Token}
	if c.a.Send(d, &req) {
		c.Position++
	}
	switch c.Home {
	case c.Model:
		c.departed = c.Position
	case to:
		req.Start, req.Status = c.departed, Returned
		for at := c.departed; at < c.Position; at++ {
			req.Suffix = append(req.Suffix, Token(at))
		}
		accepted := c.a.Receive(&req)
		for i, token := range accepted {
			if i >= c.Position-c.departed || token != Token(c.departed+i) {
				return fmt.Errorf("Receive accepts %v, which does not begin the returned tokens", accepted)
			}
		}
		c.Position = c.departed + len(accepted)
	}
	c.Model, c.Hops, c.Extra = to, c.Hops+1, req.Extra
	return c.arrive()
}

// madeUp are signals on both sides of any threshold.
func madeUp(need Need, seed uint64, position int) (s Signals) {
	u := func(i int) float64 { return Draw(seed, position, purposeChecked+Purpose(i)+1) }
	if need&NeedEntropy != 0 {
		s.Entropy = u(0)
	}
	if need&NeedMaxProb != 0 {
		s.MaxProb = 1 - u(1)
	}
	if need&NeedTopK != 0 {
		left := 1.0
		for i := range 10 {
			p := left / 2
			left -= p
			s.TopK = append(s.TopK, TokenProb{Token(i), p})
		}
	}
	if need&NeedDeferLogit != 0 {
		s.DeferLogit = 8 * (u(2) - 0.5)
	}
	if need&NeedRouterScore != 0 {
		s.RouterScore = u(3)
	}
	return s
}
