package model

import (
	"math"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
)

// Rope is the rotary embedding: at position p the dimensions i and i+HeadDim/2
// of a head form a pair that turns by the angle p·InverseFrequencies[i].
type Rope struct {
	// InverseFrequencies has HeadDim/2 entries in radians per position, with the
	// scaling of long contexts applied. They are float32 and computed in the
	// order of transformers, since an angle is a position times a frequency: a
	// last bit more here is a visible difference at position 10,000.
	InverseFrequencies []float32
}

// Fill writes the cosine and sine of every pair at a position: HeadDim/2
// numbers each. The angle is rounded to float32 as in transformers.
func (r Rope) Fill(position int, cos, sin []float32) {
	for i, frequency := range r.InverseFrequencies {
		s, c := math.Sincos(float64(float32(position) * frequency))
		cos[i], sin[i] = float32(c), float32(s)
	}
}

// newRope is for configs that refuseFeatures let through.
func newRope(c *modelconfig.Config) Rope {
	table := make([]float32, c.HeadDim/2)
	for i := range table {
		exponent := float32(2*i) / float32(c.HeadDim)
		power := float32(math.Pow(float64(float32(c.RopeTheta)), float64(exponent)))
		table[i] = 1 / power
		switch c.Rope.Type {
		case "linear":
			table[i] /= float32(c.Rope.Factor)
		case "llama3":
			table[i] = stretch(table[i], &c.Rope)
		}
	}
	return Rope{table}
}

// stretch is Llama 3.1's scaling: short wavelengths, which tell near tokens
// apart, are kept, long ones divided by the factor, and between the two bounds
// one goes over into the other.
func stretch(frequency float32, r *modelconfig.Rope) float32 {
	original := float64(r.OriginalPositions)
	wavelength := float32(2*math.Pi) / frequency
	switch {
	case wavelength < float32(original/r.HighFreq):
		return frequency
	case wavelength > float32(original/r.LowFreq):
		return frequency / float32(r.Factor)
	}
	smooth := (float32(original)/wavelength - float32(r.LowFreq)) / float32(r.HighFreq-r.LowFreq)
	// The conversion keeps the compiler from fusing the product into the sum.
	return float32((1-smooth)*frequency/float32(r.Factor)) + float32(smooth*frequency)
}
