package engines

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/cpu/kernel"
)

// selfTestDigest is what SelfTest finds on every machine whose arithmetic is
// right: a step's bits depend neither on the processor nor on its kernels.
const selfTestDigest = "34dbcb59a6dbe982"

// SelfTest writes a few tokens with each toy, with the machine's kernels and in
// plain Go, and compares the bits of their probabilities with each other and
// with known ones.
func SelfTest() error {
	best := kernel.Level()
	defer kernel.SetLevel(best)
	fast, err := toyDigest()
	if err != nil {
		return err
	}
	if err := kernel.SetLevel("go"); err != nil {
		return err
	}
	plain, err := toyDigest()
	switch {
	case err != nil:
		return err
	case fast != plain:
		return fmt.Errorf("%s kernels and plain Go differ: %s and %s", best, fast, plain)
	case fast != selfTestDigest:
		return fmt.Errorf("the toys' probabilities have digest %s, not %s", fast, selfTestDigest)
	}
	return nil
}

// toyDigest names the bits of what the toys write.
func toyDigest() (string, error) {
	h := sha256.New()
	for _, family := range Toys {
		if err := toyBits(family, func(token algorithms.Token, logprob float64) {
			h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, uint32(token)), math.Float64bits(logprob)))
		}); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// toyBits lets a toy read a short prompt and write a few tokens.
func toyBits(family string, saw func(algorithms.Token, float64)) error {
	w, err := Open(context.Background(), toyPrefix+family)
	if err != nil {
		return err
	}
	defer w.Close()
	const prompt, tokens, blockTokens = 5, 12, 16
	e, err := w.CPU(Options{Threads: 1, KVTokens: prompt + tokens, BlockTokens: blockTokens})
	if err != nil {
		return err
	}
	defer e.Close()
	q := backend.Sequence{Tokens: []algorithms.Token{1, 2, 3, 4, 5}, Blocks: []int32{0, 1}, Samples: true, Prompt: prompt}
	results := make([]backend.Result, 1)
	for range tokens {
		q.Context = q.Position()
		if err := e.Forward(&backend.Step{Sequences: []backend.Sequence{q}}, results); err != nil {
			return err
		}
		saw(results[0].Token, results[0].Logprob)
		q.Start, q.Tokens = q.Position(), []algorithms.Token{results[0].Token}
	}
	return nil
}
