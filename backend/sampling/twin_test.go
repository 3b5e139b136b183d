package sampling

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
)

// twin chooses the plain way: sort everything, sum everything, use package math.
func twin(raw []float32, seq *backend.Sequence, step *backend.Step) (out backend.Result, err error) {
	order := sorted(raw)
	largest := float64(raw[order[0]])
	sum, h := 0.0, 0.0
	for _, x := range raw {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 1) {
			return out, errors.New("not a number")
		}
		sum += math.Exp(float64(x) - largest)
	}
	if math.IsInf(largest, -1) {
		return out, errors.New("nothing left")
	}
	prob := func(t int) float64 { return math.Exp(float64(raw[t])-largest) / sum }
	logprob := func(t int) float64 { return float64(raw[t]) - largest - math.Log(sum) }
	for t := range raw {
		if p := prob(t); p > 0 {
			h -= p * math.Log(p)
		}
	}
	if step.Needs&algorithms.NeedEntropy != 0 && len(raw) > 1 {
		out.Signals.Entropy = h / math.Log(float64(len(raw)))
	}
	if step.Needs&algorithms.NeedMaxProb != 0 {
		out.Signals.MaxProb = prob(order[0])
	}
	head := func(n int) []int {
		n = min(n, len(order))
		return slices.DeleteFunc(slices.Clone(order[:n]), func(t int) bool { return math.IsInf(float64(raw[t]), -1) })
	}
	if step.Needs&algorithms.NeedTopK != 0 {
		for _, t := range head(step.TopK) {
			out.Signals.TopK = append(out.Signals.TopK, algorithms.TokenProb{Token: backend.Token(t), Prob: prob(t)})
		}
	}
	out.Token = twinToken(raw, seq)
	if seq.Logprobs >= 0 {
		out.Logprob = logprob(int(out.Token))
		for _, t := range head(seq.Logprobs) {
			out.Top = append(out.Top, backend.TokenLogprob{Token: backend.Token(t), Logprob: logprob(t)})
		}
	}
	return out, nil
}

// sorted lists tokens by descending logit, then ascending token.
func sorted(logits []float32) []int {
	order := make([]int, len(logits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := logits[a], logits[b]; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return order
}

func twinToken(raw []float32, seq *backend.Sequence) backend.Token {
	s := seq.Sampling
	if s == nil {
		return backend.Token(sorted(raw)[0])
	}
	logits := twinEdit(raw, seq, true)
	order := sorted(logits)
	if math.IsInf(float64(logits[order[0]]), -1) {
		logits = twinEdit(raw, seq, false)
		order = sorted(logits)
	}
	if s.Temperature < 1e-6 {
		return backend.Token(order[0])
	}
	weight := func(t int) float64 {
		return math.Exp((float64(logits[t]) - float64(logits[order[0]])) / s.Temperature)
	}
	if s.TopK > 0 && s.TopK < len(order) {
		order = order[:s.TopK]
	}
	if s.TopP > 0 && s.TopP < 1 {
		total, sum := 0.0, 0.0
		for _, t := range order {
			total += weight(t)
		}
		for i, t := range order {
			if sum += weight(t); sum >= s.TopP*total {
				order = order[:i+1]
				break
			}
		}
	}
	var kept []int
	total, sum := 0.0, 0.0
	for _, t := range order {
		if weight(t) >= s.MinP && weight(t) > 0 {
			kept = append(kept, t)
			total += weight(t)
		}
	}
	slices.Sort(kept)
	u := algorithms.Draw(seq.Seed, seq.Position(), algorithms.PurposeSample)
	for _, t := range kept {
		if sum += weight(t); sum > u*total {
			return backend.Token(t)
		}
	}
	return backend.Token(kept[len(kept)-1])
}

func twinEdit(raw []float32, seq *backend.Sequence, forbid bool) []float32 {
	s := seq.Sampling
	logits := slices.Clone(raw)
	within := func(x float64) float32 {
		if math.IsInf(x, -1) {
			return float32(x)
		}
		return float32(math.Max(-math.MaxFloat32, math.Min(math.MaxFloat32, x)))
	}
	for t := range logits {
		for _, b := range s.LogitBias {
			if b.Token == backend.Token(t) {
				logits[t] = within(float64(logits[t]) + b.Bias)
			}
		}
		if forbid && slices.Contains(s.Ends, backend.Token(t)) && seq.Position()-seq.Prompt < s.MinTokens {
			logits[t] = float32(math.Inf(-1))
		}
		times := 0
		for i, h := range seq.History {
			if h == backend.Token(t) && i >= seq.Prompt {
				times++
			}
		}
		if r := s.RepetitionPenalty; r != 0 && slices.Contains(seq.History, backend.Token(t)) {
			if logits[t] > 0 {
				logits[t] = within(float64(logits[t]) / r)
			} else {
				logits[t] = within(float64(logits[t]) * r)
			}
		}
		if times > 0 {
			logits[t] = within(float64(logits[t]) - s.FrequencyPenalty*float64(times) - s.PresencePenalty)
		}
	}
	return logits
}

// anyLogits draws logits with ties, masked tokens, hills and cliffs. A large
// vocabulary makes the filters try more than their first, short list.
func anyLogits(t *rapid.T) []float32 {
	n := rapid.OneOf(rapid.IntRange(1, 12), rapid.IntRange(1, 200), rapid.IntRange(1000, 3000)).Draw(t, "vocab")
	steps := rapid.SampledFrom([]float32{0.25, 1, 1.0 / 3, 30}).Draw(t, "step")
	seed := rapid.Uint64().Draw(t, "shape")
	levels := rapid.SampledFrom([]uint64{1, 2, 5, 40, 1 << 20}).Draw(t, "levels")
	logits := make([]float32, n)
	for i := range logits {
		bits := algorithms.Bits(seed, i, 99)
		logits[i] = steps * float32(40*float64(bits%levels)/float64(levels)-20)
		if bits>>56 < 20 && i > 0 {
			logits[i] = float32(math.Inf(-1))
		}
		if logits[i] == 0 && bits>>55&1 == 1 {
			logits[i] = float32(math.Copysign(0, -1))
		}
	}
	return logits
}

func anySampling(t *rapid.T, vocab int) *backend.Sampling {
	token := rapid.Int32Range(0, int32(vocab-1))
	s := &backend.Sampling{
		Temperature:       rapid.SampledFrom([]float64{0, 1e-7, 1e-6, 0.1, 0.7, 1, 1, 3, 1e4}).Draw(t, "temperature"),
		TopK:              rapid.SampledFrom([]int{-1, 0, 0, 1, 2, 3, 50, 700, 1 << 30}).Draw(t, "top_k"),
		TopP:              rapid.SampledFrom([]float64{0, 0, 1e-9, 0.1, 0.5, 0.9, 0.999, 1}).Draw(t, "top_p"),
		MinP:              rapid.SampledFrom([]float64{0, 0, 1e-9, 0.01, 0.3, 1}).Draw(t, "min_p"),
		RepetitionPenalty: rapid.SampledFrom([]float64{0, 0, 0.5, 1, 1.3, 2, 1e-300}).Draw(t, "repetition"),
		PresencePenalty:   rapid.SampledFrom([]float64{0, 0, -2, 0.5, 2}).Draw(t, "presence"),
		FrequencyPenalty:  rapid.SampledFrom([]float64{0, 0, -0.5, 0.25, 2}).Draw(t, "frequency"),
		MinTokens:         rapid.SampledFrom([]int{0, 1, 5}).Draw(t, "min_tokens"),
	}
	for range rapid.IntRange(0, 4).Draw(t, "biases") {
		s.LogitBias = append(s.LogitBias, backend.TokenBias{Token: backend.Token(token.Draw(t, "token")),
			Bias: rapid.SampledFrom([]float64{-100, -1, 0.5, 100, 1e308}).Draw(t, "bias")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "ends") {
		s.Ends = append(s.Ends, backend.Token(token.Draw(t, "end")))
	}
	return s
}

// anySequence draws a sequence that samples; a few of its tokens lie outside of
// the vocabulary.
func anySequence(t *rapid.T, vocab int) *backend.Sequence {
	history := rapid.SliceOfN(rapid.Int32Range(0, int32(min(vocab+1, 20))), 1, 40).Draw(t, "history")
	seq := &backend.Sequence{
		Seed:     rapid.Uint64().Draw(t, "seed"),
		Prompt:   rapid.IntRange(1, len(history)).Draw(t, "prompt"),
		Samples:  true,
		Logprobs: rapid.SampledFrom([]int{-1, -1, 0, 3, 70}).Draw(t, "logprobs"),
	}
	for _, h := range history {
		seq.History = append(seq.History, backend.Token(h))
	}
	seq.Start = rapid.IntRange(0, len(history)-1).Draw(t, "start")
	seq.Tokens = seq.History[seq.Start:]
	if rapid.Bool().Draw(t, "samples by rules") {
		seq.Sampling = anySampling(t, vocab)
	}
	return seq
}

func anyStep(t *rapid.T) *backend.Step {
	return &backend.Step{Needs: algorithms.Need(rapid.IntRange(0, 7).Draw(t, "needs")), TopK: rapid.IntRange(0, 9).Draw(t, "k")}
}

func close12(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Max(1, math.Abs(b)) }

func TestTwin(t *testing.T) {
	var c Chooser // one for all cases: what an earlier one left must not show
	var got backend.Result
	rapid.Check(t, func(t *rapid.T) {
		logits := anyLogits(t)
		seq, step := anySequence(t, len(logits)), anyStep(t)
		before := slices.Clone(logits)
		want, wantErr := twin(logits, seq, step)
		err := c.Choose(logits, seq, step, &got)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		for i := range logits {
			if math.Float32bits(logits[i]) != math.Float32bits(before[i]) {
				t.Fatalf("logit %d was %v, is %v", i, before[i], logits[i])
			}
		}
		if got.Token != want.Token {
			t.Fatalf("token %d, want %d", got.Token, want.Token)
		}
		if math.IsInf(float64(logits[got.Token]), -1) {
			t.Fatalf("token %d is masked", got.Token)
		}
		compare(t, &got, &want)
	})
}

func compare(t *rapid.T, got, want *backend.Result) {
	if !close12(got.Signals.Entropy, want.Signals.Entropy) || !close12(got.Signals.MaxProb, want.Signals.MaxProb) || !close12(got.Logprob, want.Logprob) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	if len(got.Top) != len(want.Top) || len(got.Signals.TopK) != len(want.Signals.TopK) {
		t.Fatalf("lists of %d and %d, want %d and %d", len(got.Top), len(got.Signals.TopK), len(want.Top), len(want.Signals.TopK))
	}
	for i, g := range got.Top {
		if w := want.Top[i]; g.Token != w.Token || !close12(g.Logprob, w.Logprob) {
			t.Fatalf("top %d is %v, want %v", i, g, w)
		}
	}
	for i, g := range got.Signals.TopK {
		if w := want.Signals.TopK[i]; g.Token != w.Token || !close12(g.Prob, w.Prob) {
			t.Fatalf("signal top %d is %v, want %v", i, g, w)
		}
	}
}
