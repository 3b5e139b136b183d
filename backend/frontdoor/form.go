package frontdoor

// form is how a protocol writes answers. What the functions return is written
// as JSON.
type form interface {
	// idPrefix begins the ids of answers.
	idPrefix() string
	// promptField names the prompt in errors.
	promptField() string
	// opening is the first event of a choice's stream, nil for none.
	opening(c *choice) any
	// piece is the event for a chunk that the choice has taken, nil for none.
	piece(c *choice, ch *Chunk) any
	// closing is the last event of a choice.
	closing(c *choice) any
	// tail is the event after all choices have ended, nil for none.
	tail(a *ask, choices []*choice) any
	// whole is the answer to who wants no stream.
	whole(a *ask, choices []*choice) any
}

// answer is what completions and chat completions have in common.
type answer struct {
	ID             string  `json:"id"`
	Object         string  `json:"object"`
	Created        int64   `json:"created"`
	Model          string  `json:"model"`
	PromptTokenIDs []Token `json:"prompt_token_ids,omitempty"`
	Choices        []any   `json:"choices"`
	Usage          *usage  `json:"usage,omitempty"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
	PromptDetails    any `json:"prompt_tokens_details"`
}

type promptDetails struct {
	Cached int `json:"cached_tokens"`
}

func (a *ask) answer(object string, u *usage, choices ...any) *answer {
	if choices == nil {
		choices = []any{} // the key must be there, and a list
	}
	return &answer{ID: a.form.idPrefix() + a.id, Object: object, Created: a.created, Model: a.name, Choices: choices, Usage: u}
}

// used says what was used so far by all choices.
func (a *ask) used(choices []*choice) *usage {
	u := &usage{PromptTokens: a.promptTokens()}
	cached := 0
	for _, c := range choices {
		u.CompletionTokens += len(c.tokens)
		if c.index%a.n == 0 {
			cached += c.cached
		}
	}
	u.PromptDetails = promptDetails{cached}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// sofar is the usage in each chunk, for who wants that.
func (c *choice) sofar() *usage {
	if !c.ask.eachUsage {
		return nil
	}
	u := &usage{PromptTokens: len(c.request.Prompt), CompletionTokens: len(c.tokens)}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// extras are the members of a choice that only those see who ask for them.
type extras struct {
	TokenIDs []Token  `json:"token_ids,omitempty"`
	Writers  []string `json:"writers,omitempty"`
}

func (a *ask) extras(tokens []Token, writers []int) (e extras) {
	if a.tokenIDs {
		e.TokenIDs = tokens
	}
	if a.writers {
		for _, w := range writers {
			e.Writers = append(e.Writers, a.house.Models[w].Name)
		}
	}
	return e
}

// extrasOf are those of a chunk.
func (c *choice) extrasOf(ch *Chunk) extras {
	return c.ask.extras(ch.Tokens, c.writers[len(c.writers)-len(ch.Tokens):])
}

// tells reports whether a chunk has anything for this client: one without text
// still has log probabilities or ids.
func (c *choice) tells(ch *Chunk) bool {
	a := c.ask
	return ch.Text != "" || len(ch.Tokens) > 0 && (a.tokenIDs || a.writers || a.common.Logprobs >= 0)
}

// ending says why a choice ended, as both vLLM and SGLang put it.
type ending struct {
	FinishReason string `json:"finish_reason"`
	StopReason   any    `json:"stop_reason"`
	MatchedStop  any    `json:"matched_stop"`
}

func (c *choice) ending() ending { return ending{c.finish, c.stop, c.stop} }
