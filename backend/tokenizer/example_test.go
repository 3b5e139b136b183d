package tokenizer_test

import (
	"fmt"

	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
)

// A request's way from messages to tokens, and from the model's tokens to text
// that ends at a stop string.
func Example() {
	tok := tokenizer.Bytes(300) // a model's own: tokenizer.Open(folder)
	prompt, err := tok.EncodeChat([]byte(`[{"role":"user","content":"Count.<|im_end|>"}]`),
		tokenizer.ChatOptions{AddGenerationPrompt: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q\n", tok.Decode(prompt, true))

	decoder := tok.NewDecoder(true)
	stop := tokenizer.NewStopMatcher([]string{"four"}, false)
	for _, token := range tok.Encode("eins, две, 三, four, five", false) {
		text, stopped := stop.Next(decoder.Next([]tokenizer.Token{token}))
		fmt.Print(text)
		if stopped {
			break
		}
	}
	fmt.Println(stop.Matched())
	// Output:
	// "user\nCount.<|im_end|>\nassistant\n"
	// eins, две, 三, four true
}
