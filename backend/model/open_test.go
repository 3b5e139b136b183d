package model

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// replaced is a text in a file, exchanged.
func replaced(t *testing.T, path, from, to string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(from)) {
		t.Fatalf("%s does not hold %q", path, from)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(from), []byte(to), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, what, dir string, want ...string) {
	t.Helper()
	m, err := Open(dir)
	if err == nil {
		m.Close()
		t.Errorf("%s: opened", what)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v\nwant %s", what, err, w)
		}
	}
}

// Wrong models, written without a fault.
func TestOpenRefusesTensors(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(m *Model)
		want   string
	}{
		{"renamed", func(m *Model) { m.Layers[1].K.Name = "model.layers.1.self_attn.key.weight" },
			"tensor model.layers.1.self_attn.k_proj.weight is missing; is the download complete"},
		{"shape", func(m *Model) { m.Layers[1].O.Shape = []int{128, 96} },
			"tensor model.layers.1.self_attn.o_proj.weight has shape [128 96], but config.json makes it [96 128]"},
		{"flat", func(m *Model) { m.Layers[0].Up.Shape = []int{96 * 192} }, "mlp.up_proj.weight has shape [18432]"},
		{"fewer layers", func(m *Model) { m.Config.Layers = 2 }, "tensor model.layers.2.input_layernorm.weight has no place in a llama of 2 layers"},
		{"more layers", func(m *Model) { m.Config.Layers = 4 }, "tensor model.layers.3.input_layernorm.weight is missing"},
		{"vocabulary", func(m *Model) { m.Config.Vocab = 500 }, "tensor model.embed_tokens.weight has shape [512 96], but config.json makes it [500 96]"},
		{"no head", func(m *Model) { m.Head.Name = "head" }, `tensor lm_head.weight is missing; if the head shares the embedding's weights, config.json must say "tie_word_embeddings": true`},
		{"NaN", func(m *Model) { m.Layers[2].Gate.U16[5] = 0x7fc0 }, "tensor model.layers.2.mlp.gate_proj.weight is NaN at index 5 of shape [192 96]"},
		{"infinite", func(m *Model) { m.Norm.U16[95] = 0xff80 }, "tensor model.norm.weight is -Inf at index 95 of shape [96]"},
	} {
		for _, shard := range []int64{0, 60_000} {
			m := randomToy(t, "llama", BF16)
			c.change(m)
			dir := t.TempDir()
			if err := m.SaveSharded(dir, shard); err != nil {
				t.Fatal(err)
			}
			refused(t, c.what, dir, filepath.Join(dir, "model"), c.want)
		}
	}
}

func TestOpenTakesCopies(t *testing.T) {
	m := randomToy(t, "qwen3", BF16)
	m.Config.TiedEmbeddings = false // writes a head, which the config then calls tied
	m.Head = m.Embed
	m.Head.Name = headName
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	replaced(t, filepath.Join(dir, configName), `"tie_word_embeddings": false`, `"tie_word_embeddings": true`)
	tied, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tied.Close()
	if &tied.Head.U16[0] != &tied.Embed.U16[0] {
		t.Error("the head is not the embedding")
	}
}

// Of a model above the limit the norms are looked at, and the rest by Check.
func TestOpenLargeModel(t *testing.T) {
	m := randomToy(t, "qwen3", F16)
	m.Layers[1].Gate.U16[3] = 0x7c00
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	large := &Model{Dir: dir, Config: m.Config}
	defer func() { large.Close() }()
	if err := large.load(m.WeightBytes() - 1); err != nil {
		t.Errorf("a large model is refused for a matrix: %v", err)
	}
	const want = "tensor model.layers.1.mlp.gate_proj.weight is +Inf at index 3"
	if err := large.Check(t.Context(), nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
	small := &Model{Dir: dir, Config: m.Config}
	defer func() { small.Close() }()
	if err := small.load(m.WeightBytes()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}

	m.Layers[1].KNorm.U16[3] = 0x7e00
	dir = filepath.Join(dir, "norm")
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	norm := &Model{Dir: dir, Config: m.Config}
	defer func() { norm.Close() }()
	if err := norm.load(0); err == nil || !strings.Contains(err.Error(), "self_attn.k_norm.weight is NaN at index 3") {
		t.Errorf("a norm: %v", err)
	}
}

func TestOpenRefusesShards(t *testing.T) {
	const first, second = "model-00001-of-00007.safetensors", "model-00002-of-00007.safetensors"
	for _, c := range []struct {
		what   string
		change func(dir string) error
		want   []string
	}{
		{"missing shard", func(dir string) error { return os.Remove(filepath.Join(dir, first)) },
			[]string{indexName, "names " + first + ", which is not there: download the missing shard"}},
		{"cut short", func(dir string) error { return os.Truncate(filepath.Join(dir, first), 65_000) },
			[]string{first, "cut short: tensor model.embed_tokens.weight"}},
		{"empty", func(dir string) error { return os.Truncate(filepath.Join(dir, first), 0) }, []string{first, "is empty"}},
		{"in two shards", func(dir string) error {
			whole := filepath.Join(dir, "whole")
			if err := randomToy(t, "qwen3", BF16).Save(whole); err != nil {
				return err
			}
			return os.Rename(filepath.Join(whole, singleName), filepath.Join(dir, second))
		}, []string{second, "tensor model.embed_tokens.weight is also in " + first}},
		{"another's", func(dir string) error {
			replaced(t, filepath.Join(dir, first), "model.embed_tokens.weight", "model.embed_tokens.WEIGHT")
			return nil
		}, []string{first, "tensor model.embed_tokens.weight is not there, though " + indexName}},
		{"unlisted", func(dir string) error {
			replaced(t, filepath.Join(dir, indexName), `    "model.norm.weight"`, `    "other"`)
			return nil
		}, []string{"tensor other is not there"}},
		{"outside", func(dir string) error {
			replaced(t, filepath.Join(dir, indexName), first, "../"+first)
			return nil
		}, []string{indexName, `tensor model.embed_tokens.weight is said to be in "../` + first}},
	} {
		dir := t.TempDir()
		if err := randomToy(t, "qwen3", BF16).SaveSharded(dir, 40_000); err != nil {
			t.Fatal(err)
		}
		if err := c.change(dir); err != nil {
			t.Fatal(err)
		}
		refused(t, c.what, dir, c.want...)
	}
}

func TestOpenRefusesUnlisted(t *testing.T) {
	dir := t.TempDir()
	if err := randomToy(t, "qwen3", BF16).SaveSharded(dir, 40_000); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, indexName))
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.Contains(line, "layers.1.mlp.up_proj") {
			kept = append(kept, line)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, indexName), []byte(strings.Join(kept, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, "unlisted", dir, "tensor model.layers.1.mlp.up_proj.weight is not in "+indexName)
}

func TestOpenRefusesFolders(t *testing.T) {
	empty := t.TempDir()
	refused(t, "empty", empty, empty, "config.json", "want a Hugging Face folder")
	if err := randomToy(t, "qwen3", BF16).Save(filepath.Join(empty, "snapshots", "1234")); err != nil {
		t.Fatal(err)
	}
	refused(t, "cache", empty, "give "+filepath.Join(empty, "snapshots", "1234"))

	dir := t.TempDir()
	if err := randomToy(t, "qwen3", BF16).Save(dir); err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(dir, singleName)
	if err := os.Rename(weights, filepath.Join(dir, "model.gguf")); err != nil {
		t.Fatal(err)
	}
	refused(t, "gguf", dir, dir, "model.gguf is of a format that is not read", "save_pretrained")
	if err := os.WriteFile(weights, []byte("version https://git-lfs.github.com/spec/v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, "pointer", dir, weights, "git lfs pull")
	if err := os.Remove(weights); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(weights, 0o700); err != nil {
		t.Fatal(err)
	}
	refused(t, "folder", dir, weights)
}

// A header of odd length puts all weights at odd addresses.
func TestOpenUnaligned(t *testing.T) {
	for _, dtype := range []Dtype{BF16, F32} {
		m := randomToy(t, "llama", dtype)
		dir := t.TempDir()
		if err := m.Save(dir); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, singleName)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		end := 8 + int(data[0]) + int(data[1])<<8
		data[0]++ // no carry: headers are multiples of 8
		odd := append(append(bytes.Clone(data[:end]), ' '), data[end:]...)
		if err := os.WriteFile(path, odd, 0o600); err != nil {
			t.Fatal(err)
		}
		read, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		sameWeights(t, read, m)
		read.Close()
	}
}
