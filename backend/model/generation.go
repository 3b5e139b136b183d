package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
)

const generationName = "generation_config.json"

// Generation is how a model's makers suggest to sample, from
// generation_config.json.
type Generation struct {
	// EOS are the ids that end a text, in the order of the file; none if no file
	// states any.
	EOS []int32

	// The rest is 0 or false where nothing is stated.
	DoSample          bool
	Temperature       float64
	TopK              int
	TopP              float64
	MinP              float64
	RepetitionPenalty float64
}

// readGeneration takes the ids that end a text from config.json, where they also
// stand, if generation_config.json is absent or does not state them.
func readGeneration(dir string, vocab int) (Generation, error) {
	var g Generation
	path := filepath.Join(dir, generationName)
	text, err := readSmall(path)
	if err == nil {
		g, err = parseGeneration(path, text, vocab)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(g.EOS) > 0 {
		return g, err
	}
	path = filepath.Join(dir, configName)
	if text, err = readSmall(path); err != nil {
		return g, err
	}
	fallback, err := parseGeneration(path, text, vocab)
	g.EOS = fallback.EOS
	return g, err
}

// parseGeneration reads the text of a generation_config.json; name stands for
// the file in errors.
func parseGeneration(name string, text []byte, vocab int) (Generation, error) {
	var f struct {
		EOS               json.RawMessage `json:"eos_token_id"`
		DoSample          *bool           `json:"do_sample"`
		Temperature       *float64        `json:"temperature"`
		TopK              *int            `json:"top_k"`
		TopP              *float64        `json:"top_p"`
		MinP              *float64        `json:"min_p"`
		RepetitionPenalty *float64        `json:"repetition_penalty"`
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return Generation{}, fmt.Errorf("%s: %w", name, inWords(err))
	}
	var g Generation
	var err error
	if g.EOS, err = parseIDs(f.EOS, vocab); err != nil {
		return Generation{}, fmt.Errorf("%s: eos_token_id %w", name, err)
	}
	g.DoSample = f.DoSample != nil && *f.DoSample
	if f.TopK != nil {
		g.TopK = *f.TopK
	}
	if g.TopK < 0 {
		return Generation{}, fmt.Errorf("%s: top_k is %d; want 0 or more", name, g.TopK)
	}
	for _, field := range []struct {
		name      string
		from      *float64
		to        *float64
		low, high float64
	}{
		{"temperature", f.Temperature, &g.Temperature, 0, math.MaxFloat32},
		{"top_p", f.TopP, &g.TopP, 0, 1},
		{"min_p", f.MinP, &g.MinP, 0, 1},
		{"repetition_penalty", f.RepetitionPenalty, &g.RepetitionPenalty, 0, math.MaxFloat32},
	} {
		if field.from == nil {
			continue
		}
		if v := *field.from; v < field.low || v > field.high {
			return Generation{}, fmt.Errorf("%s: %s is %v; want %v to %v", name, field.name, v, field.low, field.high)
		}
		*field.to = *field.from
	}
	return g, nil
}

// inWords says what stands where something else should, without Go's types.
func inWords(err error) error {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return fmt.Errorf("is not JSON: %w; fetch the file again, or remove it", err)
	}
	if kind.Field == "" {
		return fmt.Errorf("holds a JSON %s and should hold an object; fetch the file again, or remove it", kind.Value)
	}
	return fmt.Errorf("%s %s", kind.Field, modelconfig.InWords(kind))
}

// parseIDs reads an id or a list of ids.
func parseIDs(text json.RawMessage, vocab int) ([]int32, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	ids := make([]int32, 1)
	target := any(&ids[0])
	if text[0] == '[' {
		target = &ids
	}
	if err := json.Unmarshal(text, target); err != nil {
		return nil, fmt.Errorf("is neither an id nor a list of ids: %s", text)
	}
	var once []int32
	for _, id := range ids {
		if id < 0 || int(id) >= vocab {
			return nil, fmt.Errorf("is %d, outside the vocabulary of %d", id, vocab)
		}
		if !slices.Contains(once, id) {
			once = append(once, id)
		}
	}
	return once, nil
}
