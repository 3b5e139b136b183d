package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
	"github.com/tokenrouter/tokenrouter/internal/regular"
)

const (
	singleName = "model.safetensors"
	indexName  = "model.safetensors.index.json"
)

// file is one mapped safetensors file.
type file struct {
	path string
	data []byte
}

func openFile(path string) (*file, error) {
	if bigEndian() {
		return nil, fmt.Errorf("%s: the format is little-endian and this machine is not", path)
	}
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // a mapping outlives its descriptor
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := int(info.Size())
	if size == 0 || info.IsDir() {
		return nil, fmt.Errorf("%s: is empty or a folder: download it again", path)
	}
	data, err := mapFile(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s: mapping %d bytes: %w", path, size, err)
	}
	return &file{path, data}, nil
}

func (f *file) close() error {
	if err := unmapFile(f.data); err != nil {
		return fmt.Errorf("%s: unmapping: %w", f.path, err)
	}
	return nil
}

// shards are the tensors of all files of a folder.
type shards struct {
	files   []*file
	where   string // the file that lists the tensors, for errors
	tensors map[string]stored
}

type stored struct {
	entry
	in *file
}

// openShards maps the files of a folder. What it returns has files to close,
// with an error too.
func openShards(dir string) (shards, error) {
	single, index := filepath.Join(dir, singleName), filepath.Join(dir, indexName)
	set := shards{tensors: map[string]stored{}}
	_, errSingle := os.Stat(single)
	_, errIndex := os.Stat(index)
	switch {
	case errSingle == nil: // with both, transformers takes this one
		set.where = single
		return set, set.add(single)
	case errIndex == nil:
		set.where = index
		return set, set.addAll(dir, index)
	case !errors.Is(errSingle, fs.ErrNotExist):
		return set, errSingle
	}
	return set, noWeights(dir)
}

// noWeights says what a folder without safetensors has instead.
func noWeights(dir string) error {
	err := fmt.Errorf("model %s: neither %s nor %s is there", dir, singleName, indexName)
	for _, pattern := range []string{"*.gguf", "pytorch_model*.bin", "consolidated*.pth"} {
		if found, _ := filepath.Glob(filepath.Join(dir, pattern)); len(found) > 0 {
			return fmt.Errorf("%w; %s is of a format that is not read: save the model with transformers' save_pretrained", err, filepath.Base(found[0]))
		}
	}
	return err
}

// add maps one file and takes in its tensors.
func (s *shards) add(path string) error {
	f, err := openFile(path)
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	entries, err := parseFile(f.data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, e := range entries {
		if other, ok := s.tensors[e.name]; ok {
			return fmt.Errorf("%s: tensor %s is also in %s", path, e.name, filepath.Base(other.in.path))
		}
		s.tensors[e.name] = stored{e, f}
	}
	return nil
}

// addAll maps what an index lists and holds the two against each other.
func (s *shards) addAll(dir, index string) error {
	text, err := readSmall(index)
	if err != nil {
		return err
	}
	byTensor, err := parseIndex(text)
	if err != nil {
		return fmt.Errorf("%s: %w", index, err)
	}
	names := slices.Compact(slices.Sorted(maps.Values(byTensor)))
	for _, name := range names {
		err := s.add(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: names %s, which is not there: download the missing shard", index, name)
		}
		if err != nil {
			return err
		}
	}
	for _, tensor := range slices.Sorted(maps.Keys(byTensor)) {
		found, ok := s.tensors[tensor]
		if !ok || filepath.Base(found.in.path) != byTensor[tensor] {
			return fmt.Errorf("%s: tensor %s is not there, though %s says so: download both again",
				filepath.Join(dir, byTensor[tensor]), tensor, indexName)
		}
	}
	for _, tensor := range slices.Sorted(maps.Keys(s.tensors)) {
		if _, ok := byTensor[tensor]; !ok {
			return fmt.Errorf("%s: tensor %s is not in %s: shards of two models in one folder?", s.tensors[tensor].in.path, tensor, indexName)
		}
	}
	return nil
}

// parseIndex reads {"weight_map": {TENSOR: FILE, …}}. Errors do not name the
// file.
func parseIndex(text []byte) (map[string]string, error) {
	var f struct {
		WeightMap json.RawMessage `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(f.WeightMap))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("weight_map is not an object of tensors and files")
	}
	byTensor := map[string]string{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("weight_map: %w", err)
		}
		tensor, name := t.(string), ""
		if err := d.Decode(&name); err != nil {
			return nil, fmt.Errorf("weight_map: tensor %s: want the name of a file: %w", tensor, err)
		}
		if other, ok := byTensor[tensor]; ok {
			return nil, fmt.Errorf("weight_map: tensor %s is listed twice, in %s and %s", tensor, other, name)
		}
		// A path could lead out of the folder.
		if strings.ContainsAny(name, "/\\\x00") || !strings.HasSuffix(name, ".safetensors") {
			return nil, fmt.Errorf("weight_map: tensor %s is said to be in %q; want NAME.safetensors in the same folder", tensor, name)
		}
		byTensor[tensor] = name
	}
	if len(byTensor) == 0 {
		return nil, fmt.Errorf("weight_map lists no tensor")
	}
	return byTensor, nil
}

// take gives the tensor for a slot and strikes it off.
func (s *shards) take(want slot) (Tensor, error) {
	found, ok := s.tensors[want.name]
	if !ok {
		fix := "is the download complete?"
		if want.name == headName {
			fix = `if the head shares the embedding's weights, config.json must say "tie_word_embeddings": true`
		}
		return Tensor{}, fmt.Errorf("%s: tensor %s is missing; %s", s.where, want.name, fix)
	}
	if !slices.Equal(found.shape, want.shape) {
		return Tensor{}, fmt.Errorf("%s: tensor %s has shape %s, but config.json makes it %s: are they of one model?",
			found.in.path, want.name, shapeText(found.shape), shapeText(want.shape))
	}
	delete(s.tensors, want.name)
	t := view(found.name, found.dtype, want.shape, found.in.data[found.begin:found.end])
	t.path = found.in.path
	return t, nil
}

// rest refuses tensors that no slot wanted: to ignore a bias, an adapter or a
// further layer would give wrong tokens without any error. Two kinds say
// nothing new: a copy of a tied head, and the rotary frequencies that old Llama
// files store.
func (s *shards) rest(c *modelconfig.Config) error {
	for _, name := range slices.Sorted(maps.Keys(s.tensors)) {
		if name == headName && c.TiedEmbeddings || strings.HasSuffix(name, ".rotary_emb.inv_freq") {
			continue
		}
		return fmt.Errorf("%s: tensor %s has no place in a %s of %d layers: are config.json and weights of one model?",
			s.tensors[name].in.path, name, c.ModelType, c.Layers)
	}
	return nil
}
