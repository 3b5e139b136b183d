package modelconfig

import (
	"errors"
	"strings"
	"testing"
)

func withRope(text string) []byte {
	return []byte(strings.Replace(valid, `"rope_scaling": {"type": "none"}`, text, 1))
}

func TestRope(t *testing.T) {
	llama3 := Rope{Type: "llama3", Factor: 8, LowFreq: 1, HighFreq: 4, OriginalPositions: 8192}
	const numbers = `"factor": 8, "low_freq_factor": 1.0, "high_freq_factor": 4, "original_max_position_embeddings": 8192`
	for _, c := range []struct {
		text  string
		want  Rope
		theta float64
	}{
		{`"rope_theta": 500000`, Rope{}, 5e5},
		{`"rope_theta": 500000, "rope_scaling": null`, Rope{}, 5e5},
		{`"rope_theta": 500000, "rope_scaling": {"rope_type": "llama3", ` + numbers + `}`, llama3, 5e5},
		{`"rope_scaling": {"type": "llama3", ` + numbers + `}`, llama3, 0},
		{`"rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", ` + numbers + `}`, llama3, 5e5},
		{`"rope_theta": 10000, "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}`, Rope{}, 5e5},
		{`"rope_scaling": {"type": "linear", "factor": 2.5, "high_freq_factor": -1}`, Rope{Type: "linear", Factor: 2.5}, 0},
		{`"rope_scaling": {"type": "yarn", "factor": 4}`, Rope{Type: "yarn"}, 0},
		{`"rope_scaling": {"partial_rotary_factor": 0.5}`, Rope{Partial: 0.5}, 0},
		{`"partial_rotary_factor": 0.25`, Rope{Partial: 0.25}, 0},
	} {
		config, err := Parse("config.json", withRope(c.text))
		if err != nil || config.Rope != c.want || config.RopeTheta != c.theta {
			t.Errorf("%s: %+v, %v", c.text, config, err)
		}
	}
}

func TestRopeRefused(t *testing.T) {
	for _, c := range []struct{ text, field, want string }{
		{`"rope_scaling": {"type": "linear"}`, "rope_scaling.factor", "is missing; rope_type linear needs it"},
		{`"rope_scaling": {"type": "linear", "factor": 0}`, "rope_scaling.factor", "is 0"},
		{`"rope_scaling": {"type": "linear", "factor": "8"}`, "rope_scaling.factor", "is a JSON string"},
		{`"rope_scaling": "linear"`, "rope_scaling", "is a JSON string"},
		{`"rope_scaling": {"type": "llama3", "factor": 8}`, "rope_scaling.low_freq_factor", "is missing"},
		{`"rope_parameters": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4}`,
			"rope_parameters.high_freq_factor", "is 4; want above low_freq_factor, 4"},
		{`"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}`,
			"rope_scaling.original_max_position_embeddings", "is missing"},
		{`"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 0}`,
			"rope_scaling.original_max_position_embeddings", "is 0"},
		{`"rope_parameters": {"rope_theta": -1}`, "rope_parameters.rope_theta", "is -1"},
		{`"rope_parameters": {"full_attention": {"rope_theta": 1}, "sliding_attention": {"rope_theta": 2}}`,
			"rope_parameters", "differs between kinds of layers"},
	} {
		_, err := Parse("config.json", withRope(c.text))
		var field *FieldError
		if !errors.As(err, &field) || field.Field != c.field || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

// Qwen's files state a window that is switched off, Mistral's one that is on.
func TestSliding(t *testing.T) {
	for _, c := range []struct {
		model, text string
		want        bool
	}{
		{"qwen3", `"sliding_window": 4096`, false},
		{"qwen3", `"sliding_window": 4096, "use_sliding_window": false`, false},
		{"qwen3", `"sliding_window": 4096, "use_sliding_window": true`, true},
		{"qwen3", `"layer_types": ["full_attention", "full_attention"]`, false},
		{"qwen3", `"layer_types": ["full_attention", "sliding_attention"]`, true},
		{"mistral", `"sliding_window": 4096`, true},
		{"mistral", `"sliding_window": null`, false},
	} {
		text := strings.NewReplacer(`"qwen3"`, `"`+c.model+`"`, `"sliding_window": null`, c.text).Replace(valid)
		config, err := Parse("config.json", []byte(text))
		if err != nil || config.Sliding != c.want {
			t.Errorf("%s with %s: %v, %v", c.model, c.text, config, err)
		}
	}
}
