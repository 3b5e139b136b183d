package engines

import (
	"fmt"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
)

// Tokenizer opens what turns text into the model's tokens: that of its folder,
// or one whose tokens are bytes for weights that are made up.
func (w *Weights) Tokenizer() (*tokenizer.Tokenizer, error) {
	if IsFolder(w.Name) {
		return tokenizer.Open(w.Name)
	}
	return tokenizer.Bytes(w.Config.Vocab), nil
}

// SameTokens says why two models cannot write one text: nil if every token of
// the one means the same to the other.
func SameTokens(a, b *Weights) error {
	ta, err := a.Tokenizer()
	if err != nil {
		return err
	}
	tb, err := b.Tokenizer()
	if err != nil {
		return err
	}
	if a.Config.Vocab != b.Config.Vocab {
		return fmt.Errorf("%s has a vocabulary of %d, %s one of %d: models that write one text share a tokenizer",
			ShortName(a.Name), a.Config.Vocab, ShortName(b.Name), b.Config.Vocab)
	}
	for id := range algorithms.Token(max(ta.Vocab(), tb.Vocab())) {
		if x, y := ta.TokenText(id), tb.TokenText(id); x != y {
			return fmt.Errorf("token %d is %q to %s and %q to %s: models that write one text share a tokenizer",
				id, x, ShortName(a.Name), y, ShortName(b.Name))
		}
	}
	return nil
}
