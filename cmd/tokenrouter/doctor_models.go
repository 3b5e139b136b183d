package main

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
	"github.com/tokenrouter/tokenrouter/experiments/engines"
)

// models looks at each folder, and at two of them together.
func (d *doctor) models(cmd *cobra.Command, names []string) error {
	var whole []*engines.Weights
	defer func() {
		for _, w := range whole {
			w.Close() // nothing is written to them
		}
	}()
	for _, name := range names {
		w, err := d.model(cmd, name, label(name, names))
		if err != nil {
			return err
		}
		if w != nil {
			whole = append(whole, w)
		}
	}
	if len(whole) < 2 {
		return nil
	}
	if err := engines.SameTokens(whole[0], whole[1]); err != nil {
		d.fail("pair", "route between models of one family", "%v", err)
	} else {
		d.ok("pair", "%s and %s may write one text: every token means the same to both", label(names[0], names), label(names[1], names))
	}
	total, _ := engines.Memory()
	if need := whole[0].WeightBytes() + whole[1].WeightBytes(); total > 0 && need > total {
		d.warn("pair memory", "take smaller models", "their weights take %.1f GB, and there are %.1f", float64(need)/1e9, float64(total)/1e9)
	}
	return nil
}

// model looks at one model. It returns the weights if the model can be served;
// the error is that of an interrupt.
func (d *doctor) model(cmd *cobra.Command, name, label string) (*engines.Weights, error) {
	c, err := shape(cmd.Context(), name)
	if err != nil {
		d.fail(label, configFix(err), "%v", err)
		return nil, nil
	}
	d.ok(label, "%s: %d layers of %d, %d heads that share %d, vocabulary of %d, %.2f GB of weights in %s",
		c.ModelType, c.Layers, c.Hidden, c.Heads, c.KVHeads, c.Vocab, float64(c.WeightBytes())/1e9, c.Dtype)
	w, err := engines.Open(cmd.Context(), name)
	if cmd.Context().Err() != nil {
		return nil, errInterrupted
	}
	var full *engines.MemoryError
	switch {
	case errors.As(err, &full):
		d.fail("weights", "", "%v", err)
		return nil, nil
	case err != nil:
		d.fail("weights", weightsFix(err), "%v", err)
		return nil, nil
	}
	err = w.Check(cmd.Context(), nil)
	switch {
	case err != nil && cmd.Context().Err() != nil:
		w.Close() // nothing is written to it
		return nil, errInterrupted
	case err != nil:
		d.fail("weights", fetchAgain, "%v", err)
		w.Close()
		return nil, nil
	}
	d.ok("weights", "%d tensors, all there and finite", len(w.Tensors()))
	if total, _ := engines.Memory(); total > 0 && w.WeightBytes() > total {
		d.warn("weights", "steps will wait for the disk: take a smaller model", "%.1f GB do not fit into the memory's %.1f", float64(w.WeightBytes())/1e9, float64(total)/1e9)
	}
	if !d.text(w) {
		w.Close()
		return nil, nil
	}
	return w, nil
}

// text looks at the tokenizer and the chat template.
func (d *doctor) text(w *engines.Weights) bool {
	tok, err := w.Tokenizer()
	if err != nil {
		d.fail("tokenizer", tokenizerFix(err), "%v", err)
		return false
	}
	const sample = "Zwölf Boxkämpfer, 12 × 3 = 36 😀\n\tdef f(x): return x"
	switch back := tok.Decode(tok.Encode(sample, false), false); {
	case back != sample:
		d.fail("tokenizer", "", "text comes back as %q from %q", back, sample)
		return false
	case tok.Vocab() > w.Config.Vocab:
		d.fail("tokenizer", "take the tokenizer.json of this very model", "it has %d tokens, and the model %d", tok.Vocab(), w.Config.Vocab)
		return false
	}
	d.ok("tokenizer", "%d tokens; text comes back as it was", tok.Vocab())
	if len(tok.EOS()) == 0 {
		d.warn("end of text", "give max_tokens or stop strings", "no token ends a text")
	}
	if !tok.HasChatTemplate() {
		d.warn("chat template", "generate without --chat", "there is none")
		return true
	}
	messages := json.RawMessage(`[{"role":"user","content":"Hello"}]`)
	text, err := tok.Chat(messages, tokenizer.ChatOptions{AddGenerationPrompt: true})
	var bad *tokenizer.ChatError
	switch {
	case errors.As(err, &bad):
		d.warn("chat template", "generate without --chat", "a plain message does not come through it: %v", err)
	case err == nil && !strings.Contains(text, "Hello"):
		d.warn("chat template", "generate without --chat", "a plain message does not come through it: it prints %.200q", text)
	case err != nil:
		d.warn("chat template", "generate without --chat", "%v", err)
	default:
		d.ok("chat template", "a message becomes %.2000q", text)
	}
	return true
}
