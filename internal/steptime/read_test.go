package steptime

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const valid = `origin = "bench on our own machine, 2026"
licence = "Apache-2.0"
engine = "cpu"
engine_version = "0.1"
gpu = "none"
model = "tiny"
tp = 1
notes = """
A table = of three [lines]
that only looks like TOML: tp = 7
"""
[valid]
requests = [1, 4]
rows = [1, 64]
context_tokens = [0, 512]
[cpu] # both measured
launch_ms = 0.5
serial_ms = 0.25
[table]
requests = [1, 4]
context_tokens = [128, 512]
ms = [
  [1.0, 2], # "
  [3, 4.5],
]
[rows]
rows = [1, 64]
ms = [0.5, 1.0]
attention_ns_per_row_token = 0.5
`

func TestParse(t *testing.T) {
	p, err := parse("tiny.toml", valid)
	if err != nil {
		t.Fatal(err)
	}
	if p.Origin != "bench on our own machine, 2026" || p.Licence != "Apache-2.0" || p.Range().Rows != [2]int{1, 64} {
		t.Errorf("read %+v", p)
	}
	st := p.Compile()
	for _, c := range []struct {
		requests, rows, context int
		want                    int64
		inRange                 bool
	}{
		{1, 1, 128, 1_250_000, true},
		{1, 1, 0, 1_250_000, true},
		{1, 1, 320, 1_750_000, true},
		{4, 4, 2048, 4_750_000, true},
		{2, 2, 256, 1_916_667, true},
		{1, 1, 896, 3_250_000, false},
		{7, 7, 896, 5_250_000, false},
		{1, 64, 128, 1_753_040, true}, // 63 rows x 96.5 tokens x 0.5 ns
		{1, 65, 128, 1_757_937 + 64*96/2, false},
	} {
		if got := st.Ns(c.requests, c.rows, c.context); got < c.want-1 || got > c.want+1 {
			t.Errorf("(%d, %d, %d): %d ns, want %d", c.requests, c.rows, c.context, got, c.want)
		}
		if got := p.InRange(c.requests, c.rows, c.context); got != c.inRange {
			t.Errorf("(%d, %d, %d): in range %v", c.requests, c.rows, c.context, got)
		}
	}
}

// withExtraRows is the valid file with a table over extra rows.
func withExtraRows() string {
	text := strings.NewReplacer(
		"context_tokens = [128, 512]", "context_tokens = [128, 512]\nextra_rows = [0, 10]",
		"[1.0, 2],", "[[1.0, 2], [2.0, 4]],", "[3, 4.5],", "[[3, 4.5], [6, 9]],").Replace(valid)
	return text[:strings.Index(text, "[rows]")]
}

func TestParseExtraRows(t *testing.T) {
	p, err := parse("tiny.toml", withExtraRows())
	if err != nil {
		t.Fatal(err)
	}
	st := p.Compile()
	for _, c := range []struct {
		requests, rows, context int
		want                    int64
	}{
		{1, 1, 128, 1_250_000}, {1, 11, 128, 2_250_000}, {1, 6, 512, 3_250_000}, {4, 14, 512, 6_250_000},
		{1, 21, 128, 3_250_000},
	} {
		if got := st.Ns(c.requests, c.rows, c.context); got != c.want {
			t.Errorf("(%d, %d, %d): %d ns, want %d", c.requests, c.rows, c.context, got, c.want)
		}
	}
}

func TestLaunchHidesTheGPU(t *testing.T) {
	p, err := parse("tiny.toml", strings.Replace(valid, "launch_ms = 0.5", "launch_ms = 4.0", 1))
	if err != nil {
		t.Fatal(err)
	}
	st := p.Compile()
	if a, b := st.Ns(1, 1, 128), st.Ns(4, 4, 2048); a != 4_250_000 || b != 4_750_000 {
		t.Errorf("%d ns under the launch, %d ns above it", a, b)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"tp = 1", "tp = 1\ntemperature = 3", "tiny.toml:8: temperature is not a key"},
		{"serial_ms = 0.25", "serial_ms = 0.25\nlaunchms = 1", "tiny.toml:19: cpu.launchms is not a key of a profile; did you mean cpu.launch_ms"},
		{"[cpu]", "[cpus]", "tiny.toml:16: cpus"},
		{`licence = "Apache-2.0"`, "", "tiny.toml: licence is missing"},
		{`licence = "Apache-2.0"`, `licence = " "`, "tiny.toml:2: licence is empty"},
		{"serial_ms = 0.25", "", "tiny.toml:16: cpu.serial_ms is missing"},
		{"ms = [0.5, 1.0]", "", "tiny.toml:26: rows.ms is missing"},
		{"tp = 1\n", "tp = 1\nvariant = \"lazy\"\n", `tiny.toml:8: variant is "lazy"; use "graphs" or "eager"`},
		{"tp = 1\n", "tp = 0\n", "tiny.toml:7: tp is 0"},
		{"tp = 1\n", "tp = \"one\"\n", "tiny.toml:7: tp: "},
		{"tp = 1\n", "tp = 1 2\n", "tiny.toml:7: "},
		{"launch_ms = 0.5", "launch_ms = -0.5", "tiny.toml:17: cpu.launch_ms is negative"},
		{"launch_ms = 0.5", "launch_ms = nan", "tiny.toml:17: cpu.launch_ms is not a number"},
		{"launch_ms = 0.5", "launch_ms = inf", "tiny.toml:17: cpu.launch_ms is not a number"},
		{"requests = [1, 4]\nrows", "requests = [4, 1]\nrows", "tiny.toml:13: valid.requests is [4, 1]"},
		{"requests = [1, 4]\nrows", "requests = [1]\nrows", "tiny.toml:13: valid.requests: "},
		{"requests = [1, 4]\ncontext", "requests = [2, 4]\ncontext", "tiny.toml:20: table.requests[0] is 2"},
		{"requests = [1, 4]\ncontext", "requests = [1, 1]\ncontext", "tiny.toml:20: table.requests[1] is 1 after 1"},
		{"requests = [1, 4]\ncontext", "requests = []\ncontext", "tiny.toml:20: table.requests has 0 values"},
		{"requests = [1, 4]\ncontext", "requests = [1.5, 4]\ncontext", "tiny.toml:20: table.requests"},
		{"[128, 512]", "[512, 128]", "tiny.toml:21: table.context_tokens[1] is 128 after 512"},
		{"[128, 512]", "[-1, 512]", "tiny.toml:21: table.context_tokens[0] is -1"},
		{"[128, 512]", "[128, 512, 1024]", "tiny.toml:22: table.ms[0] holds 2 values, the axis 3"},
		{"[1.0, 2],", "[1.0, 2], [1, 1],", "tiny.toml:22: table.ms holds 3 values, the axis 2"},
		{"[1.0, 2],", "[1.0],", "tiny.toml:22: table.ms[0] holds 1 values"},
		{"[1.0, 2],", "[1.0, 0],", "tiny.toml:22: table.ms[0][1] is 0"},
		{"[1.0, 2],", "[1.0, -2],", "tiny.toml:22: table.ms[0][1] is negative"},
		{"[1.0, 2],", "[nan, 2],", "tiny.toml:22: table.ms[0][0] is not a number"},
		{"[1.0, 2],", "[\"1.0\", 2],", "tiny.toml:22: table.ms: [0][0] must be a number of ms"},
		{"[1.0, 2],", "[[1.0, 2]],", "tiny.toml:22: table.ms: [1] is nested otherwise than [0]"},
		{"[1.0, 2],", "[],", "tiny.toml:22: table.ms: [0] must be an array of ms that is not empty"},
		{"[1.0, 2],", "3,", "tiny.toml:22: table.ms: [0] must be an array"},
		{"[1.0, 2],", "[1.0, 1e6],", "tiny.toml:22: table.ms[0][1] changes by more than a second per token"},
		{"[128, 512]", "[128, 512]\nextra_rows = [0, 4]", "tiny.toml:23: table.ms has the wrong depth"},
		{"[rows]\nrows = [1, 64]\nms = [0.5, 1.0]\nattention_ns_per_row_token = 0.5\n", "", "tiny.toml: rows is missing"},
		{"ms = [0.5, 1.0]", "ms = [0.5, 0.4]", "tiny.toml:28: rows.ms[1] is 0.4 after 0.5"},
		{"ms = [0.5, 1.0]", "ms = [0.5]", "tiny.toml:28: rows.ms holds 1 values"},
		{"ms = [0.5, 1.0]", "ms = [-0.5, 1.0]", "tiny.toml:28: rows.ms[0] is negative"},
		{"rows = [1, 64]\nms", "rows = [2, 64]\nms", "tiny.toml:27: rows.rows[0] is 2"},
		{"token = 0.5", "token = nan", "tiny.toml:29: rows.attention_ns_per_row_token is NaN"},
	} {
		text := strings.Replace(valid, c.old, c.new, 1)
		if text == valid {
			t.Fatalf("%q is not in the file", c.old)
		}
		_, err := parse("tiny.toml", text)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "tiny.toml") {
			t.Errorf("%q for %q: %v\nwant %q", c.new, c.old, err, c.want)
		}
	}
}

func TestLoadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.toml")
	if _, err := LoadFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that does not exist: %v", err)
	}
	if err := os.WriteFile(path, []byte(valid), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := LoadFile(path)
	if err != nil || p.Name != path || p.Model != "tiny" {
		t.Errorf("read %+v, %v", p, err)
	}
}

func TestLoadOffersNames(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"qwen3-32b-tp2", `did you mean a100-80gb/sglang-0.5.10/qwen3-32b-tp2 or a100-80gb/sglang-0.5.10/qwen3-32b-tp2-eager or a100-80gb/vllm-0.14/qwen3-32b-tp2?`},
		{"a100-80gb/sglang-0.5.1/qwen3-0.6b-tp1", `did you mean a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1 or`},
		{"zzz", `nor like it; there are 84, named like a100-80gb/sglang-0.5.10/l1-1.5b-tp1`},
	} {
		if _, err := Load(c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Load(%q): %v", c.name, err)
		}
	}
}

func TestEveryShippedProfile(t *testing.T) {
	names := Names()
	if len(names) < 4 {
		t.Fatalf("only %d profiles are shipped: %q", len(names), names)
	}
	for _, name := range names {
		p := load(t, name)
		if title := p.title(); title != name {
			t.Errorf("%s: the file says %s", name, title)
		}
		if eager := p.Variant == VariantEager; eager != (p.CPU.LaunchMs > 0) && p.EngineVersion != "mid-2025" {
			t.Errorf("%s: eager %v, launches take %v ms", name, eager, p.CPU.LaunchMs)
		}
		// The valid range must lie on the table, or InRange would vouch for guesses.
		if last := len(p.Table.Requests) - 1; p.Valid.Requests[1] > p.Table.Requests[last] {
			t.Errorf("%s: valid up to %d requests, the table ends at %d", name, p.Valid.Requests[1], p.Table.Requests[last])
		}
		if last := len(p.Table.ContextTokens) - 1; p.Valid.ContextTokens[1] > p.Table.ContextTokens[last] {
			t.Errorf("%s: valid up to %d tokens, the table ends at %d", name, p.Valid.ContextTokens[1], p.Table.ContextTokens[last])
		}
		for i, requests := range p.Table.Requests {
			for k, context := range p.Table.ContextTokens {
				if !p.InRange(requests, requests, requests*context) {
					t.Errorf("%s: cell [%d][%d] is out of range", name, i, k)
				}
			}
		}
	}
}

// FuzzParse holds that any file is either refused with an error that names it, or
// compiles to a function that gives at least 1 ns everywhere.
func FuzzParse(f *testing.F) {
	f.Add(valid)
	f.Add(withExtraRows())
	f.Add("")
	f.Add("a.b = \"\"\"\n\"\"\"\n[c]\nd = { e = 1 }\n[[f]]\n")
	for _, name := range Names() {
		text, err := shipped.ReadFile(folder + name + extension)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parse("fuzz.toml", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "fuzz.toml") {
				t.Fatalf("the error does not name the file: %v", err)
			}
			return
		}
		st := p.Compile()
		for _, step := range [][3]int{{1, 1, 0}, {3, 700, 5000}, {5000, 5000, 1 << 40}, {1 << 40, 1 << 41, 1 << 61}} {
			if ns := st.Ns(step[0], step[1], step[2]); ns < 1 {
				t.Fatalf("step %v takes %d ns", step, ns)
			}
		}
	})
}

func TestLineOf(t *testing.T) {
	text := "a = 1\n\n# b = 2\n[c.d] # x\n'e' = '''\nf = 1\n'''\ng = [\n [1], # ]\n]\nh = { i = 2 }\n\"j\".k=\"\\\"\"\n[[l]]\nm = 1\n[[l]]\nm = 2\n"
	for key, want := range map[string]int{
		"a": 1, "b": 0, "c.d": 4, "c.d.e": 5, "c.d.f": 4, "c.d.g": 8, "c.d.h": 11, "c.d.h.i": 11, "c.d.j.k": 12, "l": 13, "l.m": 14,
	} {
		if got := lineOf(text, key); got != want {
			t.Errorf("%s is on line %d, want %d", key, got, want)
		}
	}
}
