package tokenizer

import "fmt"

// MinBytesVocab is the smallest vocabulary that Bytes makes: a token for each
// byte, and three special ones.
const MinBytesVocab = 256 + 3

// chatML is the plainest chat template that models are trained on.
const chatML = `{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// Bytes returns a tokenizer without a file, for toy models with random weights:
// tokens 0 to 255 are the bytes, 256 is <|endoftext|>, 257 <|im_start|> and 258
// <|im_end|>, which ends a text. Text never becomes any of the further tokens up
// to vocab, but models of that vocabulary write them; they read as " [300]". Its
// chats are in ChatML. It panics if vocab is below MinBytesVocab.
func Bytes(vocab int) *Tokenizer {
	if vocab < MinBytesVocab {
		panic(fmt.Sprintf("tokenizer: a vocabulary of bytes has %d entries or more, not %d", MinBytesVocab, vocab))
	}
	t := empty()
	t.entries, t.special = make([]string, vocab), make([]bool, vocab)
	t.ids = map[string]int32{}
	for id := range vocab {
		if id < 256 {
			t.entries[id] = string([]byte{byte(id)})
			t.byteTokens[id] = int32(id)
			t.ids[t.entries[id]] = int32(id)
		} else {
			t.entries[id] = fmt.Sprintf(" [%d]", id)
		}
	}
	for i, content := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"} {
		t.entries[256+i] = content
		t.added = append(t.added, addedToken{ID: 256 + i, Content: content, Special: true})
	}
	if err := t.indexAdded(); err != nil {
		panic("tokenizer: the special tokens of Bytes: " + err.Error())
	}
	t.eosText = "<|im_end|>"
	t.eos = []Token{258}
	t.setTemplate("default", chatML)
	return t
}
