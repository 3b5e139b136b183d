package modelconfig

import "math"

// Rope says how the rotary embedding departs from plain frequencies
// rope_theta^(-2i/head_dim). The zero value is no departure.
type Rope struct {
	// Type is rope_type as written: "linear", "llama3", "yarn", …; "" for
	// "default" and where nothing is stated.
	Type string
	// Partial is the share of a head's dimensions that turns; 0 if not stated,
	// which means all.
	Partial float64

	Factor float64 // of the context, by which frequencies are divided; "linear" and "llama3"
	// The rest is llama3's: wavelengths above OriginalPositions/LowFreq are
	// divided, those below OriginalPositions/HighFreq are kept.
	LowFreq, HighFreq float64
	OriginalPositions int // max_position_embeddings before the context was stretched
}

// rope is rope_scaling or rope_parameters as written.
type rope struct {
	Type     *string  `json:"rope_type"`
	OldType  *string  `json:"type"`
	Theta    *float64 `json:"rope_theta"`
	Partial  *float64 `json:"partial_rotary_factor"`
	Factor   *float64 `json:"factor"`
	LowFreq  *float64 `json:"low_freq_factor"`
	HighFreq *float64 `json:"high_freq_factor"`
	Original *int     `json:"original_max_position_embeddings"`

	// Models with several kinds of layers state one rope for each kind.
	Full    *struct{} `json:"full_attention"`
	Sliding *struct{} `json:"sliding_attention"`
}

// fillRope fills Rope, and RopeTheta where it stands inside. Of a type that has
// other numbers only the name is kept: whoever runs the model must refuse it.
func (c *Config) fillRope(f *file, wrong wrongField) error {
	object, r := "rope_parameters", f.Rope
	if r == nil {
		object, r = "rope_scaling", f.RopeScaling
	}
	if f.Partial != nil {
		c.Rope.Partial = *f.Partial
	}
	if r == nil {
		return nil
	}
	if r.Full != nil || r.Sliding != nil {
		return &FieldError{File: c.Name, Field: object, Problem: "differs between kinds of layers, which is not understood", Unsupported: true}
	}
	if r.Theta != nil {
		if !(*r.Theta > 0) {
			return wrong(object+".rope_theta", "is %v; want above 0", *r.Theta)
		}
		c.RopeTheta = *r.Theta
	}
	if r.Partial != nil {
		c.Rope.Partial = *r.Partial
	}
	if r.Type == nil {
		r.Type = r.OldType
	}
	if r.Type != nil && *r.Type != "default" {
		c.Rope.Type = *r.Type
	}
	return c.Rope.fill(object, r, wrong)
}

func (to *Rope) fill(object string, r *rope, wrong wrongField) error {
	llama3 := to.Type == "llama3"
	if !llama3 && to.Type != "linear" {
		return nil
	}
	for _, field := range []struct {
		name   string
		from   *float64
		to     *float64
		wanted bool
	}{
		{"factor", r.Factor, &to.Factor, true},
		{"low_freq_factor", r.LowFreq, &to.LowFreq, llama3},
		{"high_freq_factor", r.HighFreq, &to.HighFreq, llama3},
	} {
		switch {
		case !field.wanted:
		case field.from == nil:
			return wrong(object+"."+field.name, "is missing; rope_type %s needs it", to.Type)
		case !(*field.from > 0 && *field.from < math.MaxFloat32):
			return wrong(object+"."+field.name, "is %v; want above 0", *field.from)
		default:
			*field.to = *field.from
		}
	}
	switch {
	case !llama3:
		return nil
	case to.HighFreq <= to.LowFreq:
		return wrong(object+".high_freq_factor", "is %v; want above low_freq_factor, %v", to.HighFreq, to.LowFreq)
	case r.Original == nil:
		return wrong(object+".original_max_position_embeddings", "is missing; rope_type llama3 needs it")
	case *r.Original < 1 || *r.Original > originalMax:
		return wrong(object+".original_max_position_embeddings", "is %d; want 1 to %d", *r.Original, originalMax)
	}
	to.OriginalPositions = *r.Original
	return nil
}
