package frontdoor

import (
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
)

// House is what is behind the door once all models are there.
type House struct {
	Service   Service
	Names     []string // that stand for the routed models together; none if Home is elsewhere
	Models    []Model
	Home      int // model where routed requests start
	Tokenizer *tokenizer.Tokenizer
	EOS       []Token // ids that end a text
	Vocab     int     // of the engines
	Context   int     // tokens of a prompt and its answer, at most
	// AnswersMax is how many answers the service can hold that come at once: who
	// asks for more would be told for ever to try again. 0 is not known.
	AnswersMax int
	// MaxLogprobs bounds the most probable tokens that a client may ask for;
	// below 0 there is no bound.
	MaxLogprobs int
	Path        string         // of the home's weights, as SGLang's clients ask for it
	Kind        string         // its model_type
	Class       string         // its architecture
	Settings    map[string]any // shown by /server_info
	Version     string
	// Thresholds says that routing compares a signal with a threshold, which
	// requests may bring.
	Thresholds bool
	// Predict tells how many tokens a second each model should write with so many
	// live requests, nil where nobody knows. It answers at once, from many
	// goroutines. A house may have none.
	Predict func(live int) []float64
	// Seed is where the seeds come from of requests that bring none.
	Seed uint64
}

// find returns the model of a served name.
func (h *House) find(name string) (model int, ok bool) {
	if slices.Contains(h.Names, name) {
		return Routed, true
	}
	for m := range h.Models {
		if h.Models[m].Here && h.Models[m].Name == name {
			return m, true
		}
	}
	return 0, false
}

// Served lists all names that clients may ask for.
func (h *House) Served() []string {
	names := slices.Clone(h.Names)
	for _, m := range h.Models {
		if m.Here && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

func (h *House) nameList() string { return strings.Join(h.Served(), ", ") }

func (h *House) defaults(model int) *Defaults {
	if model == Routed {
		model = h.Home
	}
	return &h.Models[model].Defaults
}

// text makes what turns a request's tokens into text.
func (h *House) text(r *Request, skipSpecial bool) Detokenizer {
	return &text{decoder: h.Tokenizer.NewDecoder(skipSpecial), ends: r.Ends, show: r.ShowStop}
}

// text is the text of one request. A token that ends it is not text, unless the
// client wants to see what ended it.
type text struct {
	decoder *tokenizer.Decoder
	ends    []Token
	show    bool
}

func (t *text) Next(tokens []Token) string {
	if n := len(tokens); n > 0 && !t.show && slices.Contains(t.ends, tokens[n-1]) {
		tokens = tokens[:n-1]
	}
	return t.decoder.Next(tokens)
}

func (t *text) Rest() string { return t.decoder.Rest() }
