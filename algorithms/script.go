package algorithms

import "fmt"

// Script replays who wrote each output token. In a script letter i names the
// writer of output token i: S is Small, L is Large, a digit is that model's
// index. A request follows the script number Seed mod len(scripts), and past
// its end stays where it is. A token that another model should have written
// is dropped and the request goes there; all others are kept.
type Script struct {
	AcceptAll
	writers      [][]int
	promptTokens int
}

// NewScript returns the replay for models models, where every prompt has
// promptTokens tokens. A script that is empty or has other letters is a
// FieldError.
func NewScript(scripts []string, pair Pair, models, promptTokens int) (*Script, error) {
	if len(scripts) == 0 {
		return nil, fieldErrorf("scripts", `is missing; give one string per request, like ["SSS", "SLSS"]`)
	}
	if promptTokens < 1 {
		return nil, fieldErrorf("prompt_tokens", "%d is not the length of a prompt; a script needs one length for all prompts, ≥ 1", promptTokens)
	}
	s := &Script{promptTokens: promptTokens}
	for n, script := range scripts {
		if script == "" {
			return nil, fieldErrorf("scripts", "script %d is empty; name a writer per output token, like SLSS", n+1)
		}
		writers := make([]int, 0, len(script))
		for i, letter := range []byte(script) {
			w := -1
			switch {
			case letter == 'S':
				w = pair.Small
			case letter == 'L':
				w = pair.Large
			case letter >= '0' && letter <= '9':
				w = int(letter - '0')
			}
			if w < 0 || w >= models {
				return nil, fieldErrorf("scripts", "script %d, %q, has %q at place %d; use S, L or %s", n+1, script, letter, i+1, digits(models))
			}
			writers = append(writers, w)
		}
		s.writers = append(s.writers, writers)
	}
	return s, nil
}

func digits(models int) string {
	if models == 1 {
		return "0"
	}
	return fmt.Sprintf("0 to %d", min(models, 10)-1)
}

func (*Script) Name() string   { return "script" }
func (*Script) Needs(int) Need { return 0 }

// Writers returns the models, by index, that write the output tokens of a
// request with this seed. A driver lets the request enter at the first.
func (s *Script) Writers(seed uint64) []int { return s.writers[seed%uint64(len(s.writers))] }

func (s *Script) Route(v *View) Dest { return s.at(v, v.Position) }

func (s *Script) at(v *View, position int) Dest {
	writers := s.Writers(v.Seed)
	for i := position - s.promptTokens; i <= position-s.promptTokens+1; i++ {
		if i >= len(writers) {
			break
		}
		if w := writers[i]; w != v.Model {
			return To(w)
		}
	}
	return Stay
}

// Send keeps the token if the script names the sender as its writer.
func (s *Script) Send(d Departure, req *PeerReq) bool {
	writers := s.Writers(req.Seed)
	i := d.Position - s.promptTokens
	return i >= len(writers) || writers[i] == d.From
}

func (s *Script) Stay(v *View) (kept int, dest Dest) {
	for kept := range max(0, len(s.Writers(v.Seed))-(v.StayStart-s.promptTokens)) {
		if dest := s.at(v, v.StayStart+kept); dest != Stay {
			return kept, dest
		}
	}
	return Forever, Stay
}
