package engines

import (
	"errors"
	"testing"
)

// Only what takes memory of its own counts: weights that are made up and not
// there yet, and KV, and all models of a call together.
func TestFits(t *testing.T) {
	c, err := Config("toy:llama")
	if err != nil {
		t.Fatal(err)
	}
	weights, perToken := c.WeightBytes(), KVBytesPerToken(c)
	fresh, there := Need{Name: "toy:llama"}, Need{Name: "toy:llama", Open: true, KVTokens: 3}
	for _, c := range []struct {
		name  string
		least int64 // memory that is enough
		needs []Need
	}{
		{"made-up weights", weights, []Need{fresh}},
		{"two of them", 2 * weights, []Need{fresh, fresh}},
		{"KV of weights that are there", 3 * perToken, []Need{there}},
		{"both", weights + 3*perToken, []Need{fresh, there}},
		{"KV beyond all integers", 1 << 62, []Need{{Name: "toy:llama", Open: true, KVTokens: 1 << 40}}},
	} {
		if err := fits(1<<62, c.least, c.needs); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var full *MemoryError
		if err := fits(1<<62, c.least-1, c.needs); c.least < 1<<62 && !errors.As(err, &full) {
			t.Errorf("%s: with a byte too few: %v", c.name, err)
		}
	}
	if err := fits(0, 0, []Need{there}); err != nil {
		t.Errorf("a machine that does not say: %v", err)
	}
	var full *MemoryError
	if err := fits(1<<40, 1<<40, []Need{{Name: "toy:llama", KVTokens: 1 << 62}}); !errors.As(err, &full) {
		t.Errorf("tokens beyond all memory: %v", err)
	}
}

func TestMemoryErrorNamesNumbersAndFix(t *testing.T) {
	for want, e := range map[string]*MemoryError{
		"no memory for a: it takes 65.5 GB of made-up weights, and this machine has 25.3 GB, of which 24.3 are free; take a smaller model":                            {Names: []string{"a"}, WeightBytes: 65.5e9, FreeBytes: 24.3e9, AllBytes: 25.3e9},
		"no memory for a and b: they take 1.0 GB of made-up weights and 30.0 GB of KV, and this machine has 25.3 GB; ask for fewer requests at once, or shorter ones": {Names: []string{"a", "b"}, WeightBytes: 1e9, KV: 30e9, FreeBytes: 25.3e9, AllBytes: 25.3e9},
	} {
		if got := e.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
