package nearest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestNames(t *testing.T) {
	keys := []string{"chunk_tokens", "kv_tokens", "max_running", "name", "profile", "step_ms"}
	profiles := []string{
		"a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1", "a100-80gb/sglang-0.5.10/qwen3-32b-tp2",
		"a100-80gb/vllm-0.14/qwen3-0.6b-tp1", "a100-80gb/vllm-0.14/qwen3-32b-tp2",
	}
	for _, c := range []struct {
		got   string
		known []string
		want  []string
	}{
		{"profle", keys, []string{"profile"}},
		{"naem", keys, []string{"name"}},
		{"Max_Running", keys, []string{"max_running"}},
		{"tokens", keys, []string{"chunk_tokens", "kv_tokens"}},
		{"step_ms_base", keys, []string{"step_ms"}},
		{"my_own_special_name", keys, []string{}},
		{"temperature", keys, []string{}},
		{"", keys, nil},
		{"B", []string{"b", "p"}, []string{"b", "p"}},
		{"qwen3-32b-tp2", profiles, []string{profiles[1], profiles[3]}},
		{"a100-80gb/sglang-0.5.9/qwen3-32b-tp2", profiles, []string{profiles[1], profiles[0], profiles[3]}},
		{"a100", profiles, profiles[:3]},
		{"name", []string{"name", "name"}, []string{"name"}},
	} {
		if diff := cmp.Diff(c.want, Names(c.got, c.known)); diff != "" {
			t.Errorf("Names(%q): %s", c.got, diff)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"müde", "mude", 1},
	} {
		if got := editDistance([]rune(c.a), []rune(c.b)); got != c.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestOrderOfKnownDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known := rapid.SliceOfN(rapid.StringMatching(`[a-c_]{1,6}`), 0, 12).Draw(t, "known")
		got := rapid.StringMatching(`[a-c_]{0,6}`).Draw(t, "got")
		before := slices.Clone(known)
		names := Names(got, known)
		if !slices.Equal(known, before) {
			t.Fatal("known was changed")
		}
		if diff := cmp.Diff(names, Names(got, rapid.Permutation(known).Draw(t, "other order"))); diff != "" {
			t.Fatal(diff)
		}
		if slices.Contains(known, got) && got != "" && !slices.Contains(names, got) {
			t.Fatalf("%q is known but not offered: %q", got, names)
		}
		for _, name := range names {
			if !slices.Contains(known, name) {
				t.Fatalf("%q was offered but is not known", name)
			}
		}
	})
}
