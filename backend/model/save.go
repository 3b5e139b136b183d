package model

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
)

// Save writes the model as a Hugging Face folder with one safetensors file,
// which Open and transformers read. The folder is made if need be. One that has
// weights is refused: they could be those that this model has mapped, or be
// mixed with the new ones.
func (m *Model) Save(dir string) error { return m.SaveSharded(dir, 0) }

// SaveSharded is Save with an index and several files, each of which holds
// tensors of at most maxBytes together, or one that is larger. With 0 it is one
// file without an index.
func (m *Model) SaveSharded(dir string, maxBytes int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if old, _ := filepath.Glob(filepath.Join(dir, "*.safetensors")); len(old) > 0 {
		return fmt.Errorf("model %s: %s is there already: save into another folder, or delete it", dir, filepath.Base(old[0]))
	}
	for _, f := range []struct {
		name    string
		content any
	}{{configName, configFile(m.Config)}, {generationName, generationFile(&m.Generation)}} {
		if err := writeJSON(filepath.Join(dir, f.name), f.content); err != nil {
			return err
		}
	}
	if maxBytes <= 0 {
		return writeTensors(filepath.Join(dir, singleName), m.Tensors())
	}
	var groups [][]*Tensor
	room := int64(0)
	for _, t := range m.Tensors() {
		if groups == nil || t.Bytes() > room {
			groups, room = append(groups, nil), maxBytes
		}
		last := len(groups) - 1
		groups[last], room = append(groups[last], t), room-t.Bytes()
	}
	var index struct {
		Metadata  map[string]int64  `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}
	index.Metadata = map[string]int64{"total_size": m.WeightBytes()}
	index.WeightMap = map[string]string{}
	for i, group := range groups {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(groups))
		for _, t := range group {
			index.WeightMap[t.Name] = name
		}
		if err := writeTensors(filepath.Join(dir, name), group); err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(dir, indexName), index)
}

func writeJSON(path string, content any) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// wideFirst orders tensors so that all are aligned, one after the other.
func wideFirst(tensors []*Tensor) []*Tensor {
	tensors = slices.Clone(tensors)
	slices.SortStableFunc(tensors, func(a, b *Tensor) int { return b.Dtype.Size() - a.Dtype.Size() })
	return tensors
}

func writeTensors(path string, tensors []*Tensor) error {
	tensors = wideFirst(tensors)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close() // the second Close after a good one does no harm
	if _, err := f.Write(header(tensors)); err != nil {
		return err
	}
	for _, t := range tensors {
		if _, err := f.Write(t.raw()); err != nil {
			return err
		}
	}
	return f.Close()
}

// header is the start of a safetensors file, padded to 8 bytes.
func header(tensors []*Tensor) []byte {
	var b bytes.Buffer
	b.WriteString(`{"__metadata__":{"format":"pt"}`) // transformers asks for it
	offset := int64(0)
	for _, t := range tensors {
		name, _ := json.Marshal(t.Name) // a string always marshals
		shape, _ := json.Marshal(t.Shape)
		fmt.Fprintf(&b, `,%s:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`, name, t.Dtype, shape, offset, offset+t.Bytes())
		offset += t.Bytes()
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(b.Len())), b.Bytes()...)
}

// configFile is config.json in the spelling that old and new versions of
// transformers read. Maps marshal with sorted keys.
func configFile(c *modelconfig.Config) map[string]any {
	f := map[string]any{
		"architectures": []string{c.Architecture}, "model_type": c.ModelType,
		"num_hidden_layers": c.Layers, "hidden_size": c.Hidden, "intermediate_size": c.Intermediate,
		"num_attention_heads": c.Heads, "num_key_value_heads": c.KVHeads, "head_dim": c.HeadDim,
		"vocab_size": c.Vocab, "tie_word_embeddings": c.TiedEmbeddings, "torch_dtype": c.Dtype,
		"max_position_embeddings": c.MaxPositions, "rms_norm_eps": c.RMSNormEps, "rope_theta": c.RopeTheta,
		"attention_bias": c.AttentionBias, "hidden_act": c.Activation,
	}
	switch r := c.Rope; r.Type {
	case "linear":
		f["rope_scaling"] = map[string]any{"rope_type": r.Type, "factor": r.Factor}
	case "llama3":
		f["rope_scaling"] = map[string]any{"rope_type": r.Type, "factor": r.Factor, "low_freq_factor": r.LowFreq,
			"high_freq_factor": r.HighFreq, "original_max_position_embeddings": r.OriginalPositions}
	}
	return f
}

func generationFile(g *Generation) map[string]any {
	f := map[string]any{"do_sample": g.DoSample}
	if len(g.EOS) > 0 {
		f["eos_token_id"] = g.EOS
	}
	if g.TopK != 0 {
		f["top_k"] = g.TopK
	}
	for _, field := range []struct {
		name string
		v    float64
	}{{"temperature", g.Temperature}, {"top_p", g.TopP}, {"min_p", g.MinP}, {"repetition_penalty", g.RepetitionPenalty}} {
		if field.v != 0 {
			f[field.name] = field.v
		}
	}
	return f
}
