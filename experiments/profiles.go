package experiments

// profiles lists the names of the shipped step-time profiles.
var profiles = func() []string {
	return []string{"a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1", "a100-80gb/sglang-0.5.10/qwen3-32b-tp2"}
}
