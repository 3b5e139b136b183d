package experiments

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/internal/steptime"
)

const tinyConfig = `{"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
 "intermediate_size": 512, "vocab_size": 1000, "torch_dtype": "float16"}`

// writeFile writes a file in a folder that ends with the test.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// profileText is a shipped profile as a file.
func profileText(t *testing.T, name string) string {
	t.Helper()
	p, err := steptime.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := steptime.WriteTOML(&text, p); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// priced is the small experiment with another way to give large its steps.
func priced(way string) []byte {
	return []byte(strings.Replace(small, "step_ms = { base = 32.0, per_request = 0.1 }", way, 1))
}

func stepNs(t *testing.T, m *Model) int64 {
	t.Helper()
	time, err := m.StepTime()
	if err != nil {
		t.Fatal(err)
	}
	return time.Ns(4, 4, 4000)
}

func TestProfileFile(t *testing.T) {
	dir := t.TempDir()
	const shipped = "a100-80gb/sglang-0.5.10/qwen3-32b-tp2"
	text := profileText(t, shipped)
	writeFile(t, filepath.Join(dir, "mine.toml"), text)
	file := filepath.Join(dir, "x.toml")
	src := priced(`profile = "mine.toml"`)
	plan, err := Load(file, src)
	if err != nil {
		t.Fatal(err)
	}
	same := load(t, string(priced(`profile = "`+shipped+`"`)))
	m := &plan.Points[0].Spec.Models[1]
	if got, want := stepNs(t, m), stepNs(t, &same.Points[0].Spec.Models[1]); got != want {
		t.Errorf("a step takes %d ns, want the %d of the profile that was written", got, want)
	}
	if want := int64(32.7e9); m.Prices.WeightBytes < want*9/10 || m.Prices.WeightBytes > want*11/10 {
		t.Errorf("weights of %d bytes on each of two GPUs, want about %d", m.Prices.WeightBytes, want)
	}
	// A comment changes nothing; another number makes another cell.
	key := plan.Cells[0].Key()
	for _, change := range []struct {
		text string
		same bool
	}{{"# hello\n" + text, true}, {strings.Replace(text, "serial_ms = 0", "serial_ms = 1", 1), false}} {
		writeFile(t, filepath.Join(dir, "mine.toml"), change.text)
		plan, err := Load(file, src)
		if err != nil {
			t.Fatal(err)
		}
		if (plan.Cells[0].Key() == key) != change.same {
			t.Errorf("the same key is %t for a file that starts with %.20q", !change.same, change.text)
		}
	}
}

func TestProfileFileErrors(t *testing.T) {
	dir := t.TempDir()
	text := profileText(t, "a100-80gb/sglang-0.5.10/qwen3-32b-tp2")
	file := filepath.Join(dir, "x.toml")
	writeFile(t, filepath.Join(dir, "bad.toml"), strings.Replace(text, "\ntp             = 2", "\ntp             = 0", 1))
	writeFile(t, filepath.Join(dir, "syntax.toml"), "origin = = 1\n")
	for name, want := range map[string]string{
		"bad.toml":    ":7: models.large.profile: " + filepath.Join(dir, "bad.toml") + ":7: tp is 0; give the number of GPUs",
		"syntax.toml": ":7: models.large.profile: " + filepath.Join(dir, "syntax.toml") + ":1: ",
		"none.toml":   ":7: models.large.profile: cannot open " + filepath.Join(dir, "none.toml") + ": no such file or directory\n  fix: the name is relative",
		"..toml":      ":7: models.large.profile: cannot open ",
	} {
		_, err := Load(file, priced(`profile = "`+name+`"`))
		if err == nil || !strings.HasPrefix(err.Error(), file+want) {
			t.Errorf("got\n%v\nwant\n%s", err, file+want)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.toml"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file, priced(`profile = "folder.toml"`)); err == nil || !strings.Contains(err.Error(), "folder.toml is not a file") {
		t.Errorf("a folder: got %v", err)
	}
}

func TestRoofline(t *testing.T) {
	plan := load(t, string(priced(`roofline = { gpu = "h200", config = "qwen3-8b" }`))+`"models.large.roofline.tp" = [1, 2, 4]`)
	var times []int64
	var gpus [][]int
	for _, p := range plan.Points[:3] {
		times = append(times, stepNs(t, &p.Spec.Models[1]))
		gpus = append(gpus, p.Spec.Models[1].GPUs)
	}
	if !(times[0] > times[1] && times[1] > times[2]) {
		t.Errorf("steps at TP 1, 2, 4 take %v ns, want them shorter and shorter", times)
	}
	if !slices.EqualFunc(gpus, [][]int{{1}, {1, 2}, {1, 2, 3, 4}}, slices.Equal) {
		t.Errorf("GPUs %v: want as many of its own as TP", gpus)
	}
	text := tomlText(plan.Points[0].Spec.Models[1].Roofline.Engine)
	if !slices.ContainsFunc(plan.Points[0].Settings, func(s Setting) bool {
		return s.Path == "models.large.roofline.engine" && s.Default && s.Text() == text
	}) {
		t.Errorf("settings %v lack the default engine", plan.Points[0].Settings)
	}
	// The small model has no roofline, and no settings of one.
	if slices.ContainsFunc(plan.Points[0].Settings, func(s Setting) bool { return strings.HasPrefix(s.Path, "models.small.roofline") }) {
		t.Error("small has settings of a roofline")
	}
}

// Published code has no CUDA graphs: the official system takes the eager
// variant of a roofline, and of a shipped profile.
func TestOfficialIsEager(t *testing.T) {
	for _, way := range []string{
		`roofline = { gpu = "h200", config = "qwen3-8b" }`,
		`profile = "a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1"`,
	} {
		plan := load(t, string(priced(way)), "systems=official,alternate")
		var ns [2]int64
		for i, c := range []Cell{plan.Cells[0], {Point: plan.Points[0], System: SystemAlternate, On: OnSim}} {
			s, err := newSetup(c)
			if err != nil {
				t.Fatal(err)
			}
			ns[i] = s.times[1].Ns(1, 1, 100)
		}
		if ns[0] < 2*ns[1] {
			t.Errorf("%s: a step takes %d ns in the official system, %d in others: want launches to decide", way, ns[0], ns[1])
		}
	}
}

func TestRooflineErrors(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "tiny", "config.json"), tinyConfig)
	writeFile(t, filepath.Join(dir, "wide.json"), strings.Replace(tinyConfig, "float16", "float32", 1))
	writeFile(t, filepath.Join(dir, "junk.json"), "junk")
	file := filepath.Join(dir, "x.toml")
	for roofline, want := range map[string]string{
		"gpu = 'h200'\nconfig = 'tiny/config.json'":               "",
		"gpu = 'h200'\nconfig = './tiny'":                         "",
		"gpu = 'h200'":                                            ":7: models.large.roofline.config: is missing\n  fix: the name of a model",
		"tp = 1":                                                  ":7: models.large.roofline.gpu: is missing\n  fix: one of a100-80gb",
		"gpu = 'h200'\nconfig = 'qwen3-8'":                        ":9: models.large.roofline.config: is \"qwen3-8\": no model is known",
		"gpu = 'h200'\nconfig = 'junk.json'":                      ":9: models.large.roofline.config: " + filepath.Join(dir, "junk.json") + ":1: not JSON",
		"gpu = 'h200'\nconfig = 'none.json'":                      ":9: models.large.roofline.config: cannot open " + filepath.Join(dir, "none.json"),
		"gpu = 'h200'\nconfig = 'wide.json'":                      ":9: models.large.roofline.config: is \"" + filepath.Join(dir, "wide.json") + "\", whose torch_dtype is float32",
		"gpu = 'h200'\nconfig = 'qwen3-8b'\ntp = 5":               ":10: models.large.roofline.tp: is 5 and does not divide qwen3-8b",
		"gpu = 'h200'\nconfig = 'qwen3-8b'\nengine = 'vllm-2023'": ":7: models.large.roofline.variant: is \"graphs\", but vllm-2023 had no CUDA graphs",
	} {
		_, err := Load(file, priced("[models.roofline]\n"+roofline+"\n[[models]]\nname = 'other'\nstep_ms.base = 1\n"))
		if want == "" {
			// B = 4 now belongs to other, and the matrix lacks a row for it.
			if err == nil || strings.Contains(err.Error(), "roofline") {
				t.Errorf("%s: got %v", roofline, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), file+want) {
			t.Errorf("%s: got\n%v\nwant\n%s", roofline, err, file+want)
		}
	}
}

// A roofline of a config.json is another cell when the file changes.
func TestRooflineFileIsPartOfTheKey(t *testing.T) {
	dir := t.TempDir()
	keys := map[string]bool{}
	for _, text := range []string{tinyConfig, strings.Replace(tinyConfig, "512", "1024", 1), tinyConfig} {
		writeFile(t, filepath.Join(dir, "config.json"), text)
		plan, err := Load(filepath.Join(dir, "x.toml"), priced(`roofline = { gpu = "h100", config = "./config.json" }`))
		if err != nil {
			t.Fatal(err)
		}
		keys[plan.Cells[0].Key()] = true
	}
	if len(keys) != 2 {
		t.Errorf("%d keys of two files, want 2", len(keys))
	}
}

func TestSetReplacesARoofline(t *testing.T) {
	roofline := string(priced(`roofline = { gpu = "h200", config = "qwen3-8b" }`)) + `"models.large.roofline.tp" = [1, 2]`
	for _, test := range []struct {
		src  string
		set  []string
		want string
	}{
		{roofline, []string{"models.large.step_ms.base=3"}, "step_ms"},
		{roofline, []string{"models.large.profile=a100-80gb/sglang-0.5.10/qwen3-32b-tp2"}, "profile"},
		{small, []string{"models.large.roofline.gpu=h100", "models.large.roofline.config=qwen3-0.6b"}, "roofline"},
		{roofline, []string{"models.large.roofline.gpu=h100", "models.large.roofline.tp=2"}, "roofline"},
	} {
		plan := load(t, test.src, test.set...)
		m := plan.Points[0].Spec.Models[1]
		got := map[string]bool{"step_ms": m.StepMs != nil, "profile": m.Profile != "", "roofline": m.Roofline != nil}
		for way, given := range got {
			if given != (way == test.want) {
				t.Errorf("%v: %s given is %t", test.set, way, given)
			}
		}
	}
}
